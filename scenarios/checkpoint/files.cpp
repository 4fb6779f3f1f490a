#include "scenarios/checkpoint/files.h"

#include "harness/base/values.h"
#include "harness/verdict/compare.h"
#include "scenarios/cases/devices.h"
#include "scenarios/cases/waits.h"

#include <filesystem>
#include <iterator>

namespace lockstep::scenarios::checkpoint {

namespace {

constexpr const char *kFiles = "files", *kSteps = "steps in files", *kLate = "after the late rank";
constexpr int kOldest = 9;
constexpr int64_t kTimeoutMs = 400;

// Which of the files are there that a path may have beside it, and how many files in all.
std::vector<int64_t> files_of(const std::string& path) {
  std::vector<int64_t> out;
  const auto add = [&](const std::string& suffix) {
    out.push_back(std::filesystem::exists(path + suffix) ? 1 : 0);
  };
  for (const auto* suffix : {"", ".best", ".partial"}) add(suffix);
  for (int age = 1; age <= kOldest; ++age) add("." + std::to_string(age));
  const std::filesystem::directory_iterator all(std::filesystem::path(path).parent_path());
  out.push_back(std::distance(begin(all), end(all)));
  return out;
}

struct File {
  std::string suffix;
  int64_t step = 0;  // after which it was saved
};

// The newest file comes first and the best one last.
std::vector<File> files_to_load(const Resumed& c) {
  std::vector<File> out;
  const auto add = [&](const std::string& suffix, int made) {
    out.push_back({suffix, first_count(c) + made});
  };
  for (int age = 0; age < kept(c); ++age)
    add(age == 0 ? "" : "." + std::to_string(age), last_save(c) - age);
  add(".best", best_save(c));
  return out;
}

// Returns the step that each of those files holds, as far as it is there.
std::vector<int64_t> steps_in_files(const Resumed& c, RankContext& here, const std::string& path) {
  std::vector<int64_t> out;
  for (const auto& [suffix, _] : files_to_load(c)) {
    if (!std::filesystem::exists(path + suffix)) continue;
    int64_t step = 0;
    checkpoints(here).load(path + suffix, here.group(), {.step = &step, .generators = {}}, {});
    out.push_back(step);
  }
  return out;
}

}  // namespace

std::string path_of(RankContext& here) {
  const auto folder = here.scratch() / "checkpoints";
  if (here.rank() == 0) {
    std::filesystem::create_directory(folder);
    here.store()->set("folder of checkpoints", folder.string());
  }
  return here.store()->get_to_str("folder of checkpoints") + "/training.pt";
}

void record_files(const Resumed& c, RankContext& here, const std::string& path) {
  here.enter(c.steps, kFiles);
  here.record(kFiles, files_of(path));
  here.record(kSteps, steps_in_files(c, here, path));
}

Findings files_are_those_to_keep(const Resumed& c, const History& h) {
  std::vector<int64_t> right{1, 1, 0};
  for (int age = 1; age <= kOldest; ++age) right.push_back(age < kept(c) ? 1 : 0);
  right.push_back(kept(c) + 1);
  return equal("The files that are kept must be those that were asked for, and no other",
               {{.row = h.row({c.steps, kFiles}, kFiles), .expected = {int64_values(right)}}});
}

Findings each_file_holds_its_step(const Resumed& c, const History& h) {
  std::vector<int64_t> right;
  for (const auto& each : files_to_load(c)) right.push_back(each.step);
  return equal("A file must hold the step after which it was saved: the newest has the plain name",
               {{.row = h.row({c.steps, kFiles}, kSteps), .expected = {int64_values(right)}}});
}

void wait_for_the_late_rank(const Resumed& c, RankContext& here, const std::string& path) {
  refuse_where_the_simulation_waits(here, "the end of its timeout");
  here.enter(c.steps, kLate);
  int64_t step = 0;
  const auto call = [&](const auto& wait) {
    wait();
    const TrainingState state{.step = &step, .generators = {}};
    if (c.late_to_load)
      checkpoints(here).load(path, here.group(), state, kTimeoutMs);
    else
      checkpoints(here).save(path, here.group(), state, {}, kTimeoutMs);
  };
  record_wait_for(late_rank(c), kTimeoutMs, call, here);
}

Findings calls_end_in_time(const Resumed& c, const History& h) {
  if (late_rank(c) < 0) return {};
  return gave_up_in_time("A call must wait for a late rank as long as its own timeout says",
                         {c.steps, kLate}, h);
}

}  // namespace lockstep::scenarios::checkpoint
