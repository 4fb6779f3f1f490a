#include "harness/invariants/against/against.h"

#include "harness/base/characters.h"
#include "harness/base/text.h"
#include "harness/invariants/rows.h"
#include "harness/recorded/passes.h"
#include "harness/verdict/trace.h"

#include <algorithm>
#include <array>

namespace lockstep::recorded {

namespace {

namespace fs = std::filesystem;

constexpr int kMovedMost = 16;
constexpr char kMove[] = "LOCKSTEP_RECORD_PERTURB=1", kValues[] = "LOCKSTEP_RECORD_VALUES=10";

RecordedRun read_one(const fs::path& folder, int perturbed) {
  const auto where = one_line(folder.string());
  auto run = read_recorded_run(folder);
  if (run.ranks.size() != 1)
    throw FieldError(where + ": is a run of " + std::to_string(run.ranks.size()) +
                     " ranks; expected one process with the same global batches");
  require_values(run, where);
  if ((run.ranks.front().perturbed > 0) != (perturbed > 0))
    throw FieldError(where + (perturbed > 0 ? ": was recorded without " : ": was recorded with ") +
                     kMove);
  return run;
}

// Samples that were drawn a different number of times here and there; one line.
std::string unlike(std::vector<int64_t> here, std::vector<int64_t> there) {
  std::sort(here.begin(), here.end());
  std::sort(there.begin(), there.end());
  std::vector<int64_t> more, fewer;
  std::set_difference(here.begin(), here.end(), there.begin(), there.end(),
                      std::back_inserter(more));
  std::set_difference(there.begin(), there.end(), here.begin(), here.end(),
                      std::back_inserter(fewer));
  std::vector<std::string> parts;
  if (!more.empty()) parts.push_back("the ranks alone drew " + listed(more));
  if (!fewer.empty()) parts.push_back("one process alone drew " + listed(fewer));
  return joined(parts, "; ");
}

std::vector<int64_t> first_of(const std::vector<int64_t>& all, size_t count) {
  return {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(std::min(count, all.size()))};
}

// The first batch after which the ranks have not drawn what one process has drawn by then. Where
// one process accumulates, its batches are others, so that their ends are not compared.
std::optional<Finding> other_batches(const PassRow& row, const Pass& one, size_t& batches) {
  size_t least = row.by_rank.front().batch_ends.size();
  for (const auto& pass : row.by_rank) least = std::min(least, pass.batch_ends.size());
  for (size_t batch = 0; batch < least; ++batch) {
    std::vector<int64_t> here;
    for (const auto& pass : row.by_rank) {
      const auto part = first_of(pass.indices, pass.batch_ends[batch]);
      here.insert(here.end(), part.begin(), part.end());
    }
    const bool is_end = one.is_exhausted && batch + 1 == least && row.all(&Pass::is_exhausted);
    const auto there = is_end ? one.indices : first_of(one.indices, here.size());
    if (!is_end && there.size() < here.size() && !one.is_exhausted) return {};
    ++batches;
    const auto text = unlike(here, there);
    if (text.empty()) continue;
    return Finding{"", "other_batches", row.place() + ", batch " + std::to_string(batch),
                   row.place() + ": after batch " + std::to_string(batch) +
                       " the ranks have drawn " + counted(here.size(), "sample") +
                       " and one process " + std::to_string(there.size()) + ": " + text};
  }
  return {};
}

}  // namespace

void require_values(const RecordedRun& run, const std::string& folder) {
  for (const auto& rank : run.ranks)
    for (const auto& record : rank.records)
      if (const auto* digests = std::get_if<Digests>(&record.what);
          digests && !digests->elements.empty())
        return;
  throw FieldError(folder +
                   ": has digests of tensors and no values, which a comparison with one "
                   "process needs; record it with " +
                   kValues);
}

OneProcess read_one_process(const fs::path& folder) {
  OneProcess one{.run = read_one(folder, 0), .moved = {}};
  for (int number = 1; number <= kMovedMost; ++number) {
    const auto moved = folder / ("perturbed-" + std::to_string(number));
    std::error_code error;
    const auto status = fs::symlink_status(moved, error);
    if (fs::is_symlink(status))
      throw FieldError(one_line(moved.string()) + ": is a link; expected a folder");
    if (fs::is_directory(status)) one.moved.push_back(read_one(moved, number));
  }
  if (one.moved.empty())
    throw FieldError(one_line(folder.string()) +
                     ": holds no perturbed-1, which says how far rounding goes; record the same "
                     "run into it once more, with " +
                     kMove);
  return one;
}

Judgement batches_are_those_of_one_process(const RecordedRun& run, const OneProcess& one) {
  const auto there = passes_of(one.run.ranks.front());
  Judgement judgement;
  size_t batches = 0;
  for (const auto& row : pass_rows(run)) {
    const auto found = there.find(row.source);
    if (found == there.end() || row.number >= found->second.size()) continue;
    if (!row.by_rank.front().trains && !found->second[row.number].trains) continue;
    if (auto finding = other_batches(row, found->second[row.number], batches)) {
      judgement.findings.push_back(std::move(*finding));
      break;
    }
  }
  if (batches == 0)
    return {.why_not = "no loader or sampler dealt both to the ranks and to one process"};
  judgement.compared = counted(batches, "batch", "batches");
  return judgement;
}

}  // namespace lockstep::recorded
