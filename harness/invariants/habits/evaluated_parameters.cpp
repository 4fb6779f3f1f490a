#include "harness/invariants/habits/evaluated_parameters.h"

#include "harness/base/text.h"
#include "harness/invariants/local_updates.h"

#include <algorithm>

namespace lockstep::recorded {

EvaluatedUnlike evaluated_unlike(const RecordedRun& run) {
  EvaluatedUnlike out;
  const auto later = averaged_between_updates(run);
  const auto trained = rows_of(run, role::kParameters);
  for (const auto& row : rows_of(run, role::kEvaluated)) {
    if (!row.is_whole() || row.is_divided() || later.contains(row.of)) continue;
    auto finding = difference_in(row, "the parameters of " + row.of + " with which ranks evaluate");
    if (!finding || finding->pattern == "other_shape") continue;
    const Row *before = nullptr, *after = nullptr;
    for (const auto& other : trained) {
      if (other.of != row.of || !other.is_whole()) continue;
      if (comes_before(other.at, row.at)) before = &other;
      if (other.at.phase == phase::kUpdate && !comes_before(other.at, row.at) && !after)
        after = &other;
    }
    if (before && difference_in(*before, "")) continue;  // found there
    finding->pattern = "changed_on_some_ranks";
    finding->diagnosis += ": they were the same after the update before, and changed outside one";
    finding->details.push_back(
        "usual where each rank loads the weights that were best by a metric of its own, or one "
        "rank alone loads them: reduce the metric, and load on all ranks what one rank saved");
    if (after && !difference_in(*after, "")) {
      finding->pattern = "back_at_the_update";
      if (!out.remark) out.remark = std::move(finding);
      continue;
    }
    out.found = Found{std::move(*finding), row.at};
    return out;
  }
  return out;
}

}  // namespace lockstep::recorded
