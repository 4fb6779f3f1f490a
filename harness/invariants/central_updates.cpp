#include "harness/invariants/central_updates.h"

#include "harness/invariants/endings.h"
#include "harness/invariants/unwrapped.h"

#include <algorithm>

namespace lockstep::recorded {

namespace {

// The step of each backward of the rank that updates, and the step in which it ended.
std::vector<int> steps_of_backwards(const Rank& rank) {
  std::vector<int> steps;
  for (const auto& record : rank.records)
    if (is_backward(record)) steps.push_back(record.at.step);
  steps.push_back(rank.history.last.step);
  return steps;
}

void align(Rank& rank, const std::vector<int>& steps) {
  size_t backwards = 0;
  std::string phase;
  for (auto& record : rank.records) {
    auto& at = record.at;
    // A backward's phase begins before its fact, and continues after it.
    const bool is_within =
        at.phase == phase::kBackward && phase == phase::kBackward && !is_backward(record);
    const auto number = is_within && backwards > 0 ? backwards - 1 : backwards;
    at.step = steps[std::min(number, steps.size() - 1)];
    backwards += is_backward(record) ? 1 : 0;
    phase = at.phase;
  }
  rank.history.last.step = steps.back();
}

}  // namespace

std::optional<View> with_central_updates_aligned(const RecordedRun& run) {
  if (!updates_centrally(run)) return {};
  View aligned{run};
  std::vector<int> steps;
  for (const auto& rank : run.ranks)
    if (updates_of(rank) > 0) steps = steps_of_backwards(rank);
  for (auto& rank : aligned.run.ranks)
    if (updates_of(rank) == 0) align(rank, steps);
  return aligned;
}

}  // namespace lockstep::recorded
