#include "cli/run/sharding.h"

#include "cli/usage.h"
#include "harness/base/text.h"
#include "harness/cases/groups.h"

#include <cstdlib>

namespace lockstep::cli {

namespace {

constexpr int64_t kTaskMost = 1'000'000'000;

// The variables that hold a shard's number, the first number and the number of shards.
struct Launcher {
  const char *index, *first, *count;  // names of variables; `first` null where it is `base`
  int64_t base;
};
constexpr Launcher kLaunchers[] = {
    {"SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_MIN", "SLURM_ARRAY_TASK_COUNT", 0},
    {"CI_NODE_INDEX", nullptr, "CI_NODE_TOTAL", 1},
    {"CIRCLE_NODE_INDEX", nullptr, "CIRCLE_NODE_TOTAL", 0},
};

bool is_set(const char* name) {
  const char* value = name ? std::getenv(name) : nullptr;
  return value && *value;
}

std::string found(const Launcher& launcher) {
  return is_set(launcher.index)   ? launcher.index
         : is_set(launcher.first) ? launcher.first
                                  : launcher.count;
}

int64_t value_of(const char* name, int64_t least, int64_t most, const Launcher& launcher) {
  if (!is_set(name))
    throw UsageError("--shard auto: " + found(launcher) + " is set and " + name + " is not");
  return whole_number(std::string("--shard auto: ") + name, std::getenv(name), least, most);
}

// Slurm also makes arrays with gaps, "1-9:2" and "1,5": their tasks are not numbered consecutively.
void check_no_gaps(const Launcher& launcher, int64_t first, int64_t count) {
  constexpr char kLast[] = "SLURM_ARRAY_TASK_MAX";
  if (!launcher.first || !is_set(kLast)) return;
  if (value_of(kLast, 0, kTaskMost, launcher) - first + 1 != count)
    throw UsageError(
        "--shard auto: the Slurm array has gaps: its tasks must be numbered one after the other");
}

RunShard shard_by(const Launcher& launcher) {
  const auto count = value_of(launcher.count, 1, kShardsMost, launcher);
  const auto first =
      launcher.first ? value_of(launcher.first, 0, kTaskMost, launcher) : launcher.base;
  check_no_gaps(launcher, first, count);
  const auto index = value_of(launcher.index, first, first + count - 1, launcher);
  return {static_cast<int>(index - first) + 1, static_cast<int>(count)};
}

RunShard shard_by_environment() {
  std::vector<std::string> names;
  for (const auto& launcher : kLaunchers) {
    if (is_set(launcher.index) || is_set(launcher.first) || is_set(launcher.count))
      return shard_by(launcher);
    names.emplace_back(launcher.index);
  }
  throw UsageError("--shard auto: none of " + joined(names, ", ") +
                   " is set; --shard I/N says it by hand");
}

}  // namespace

RunShard shard_value(const std::string& text) {
  if (text == "auto") return shard_by_environment();
  if (const auto shard = shard_of(text)) return *shard;
  throw UsageError("--shard " + text +
                   ": expected I/N, 1 <= I <= N <= " + with_commas(kShardsMost) + ", or auto");
}

}  // namespace lockstep::cli
