#include "harness/invariants/against/update_counts.h"

#include "harness/base/text.h"
#include "harness/invariants/endings.h"
#include "harness/recorded/tensor_points.h"

#include <algorithm>
#include <set>

namespace lockstep::recorded {

namespace {

struct Updates {
  size_t made = 0, with_values = 0;
};

size_t updates_with_values(const Rank& rank) {
  std::set<int> steps;
  for (const auto& [point, digests] : tensor_points(rank))
    if (point.stage == TensorPoint::Stage::parameters) steps.insert(point.step);
  return steps.size();
}

// Those of the rank that made most: in a join others have fewer.
Updates updates_in(const RecordedRun& run) {
  Updates most;
  for (const auto& rank : run.ranks) {
    most.made = std::max(most.made, updates_of(rank) + rank.shadowed);
    most.with_values = std::max(most.with_values, updates_with_values(rank));
  }
  return most;
}

// A recorder says in its history that the values took half of the file.
std::optional<Finding> values_ended(const RecordedRun& run, const char* whose) {
  for (const auto& rank : run.ranks)
    for (const auto& record : rank.records)
      if (const auto* fact = fact_in(record, fact::kNotRecorded);
          fact && fact->text("what") == "values") {
        const auto held = std::to_string(updates_with_values(rank));
        return Finding{"", "values_ended", "step " + std::to_string(record.at.step),
                       "the record of " + std::string(whose) + " holds the values of " + held +
                           " updates, which fill half of its file: later ones were not compared; "
                           "ask for no more, with LOCKSTEP_RECORD_VALUES=" +
                           held};
      }
  return {};
}

}  // namespace

void add_update_counts(Judgement& judgement, const RecordedRun& run, const OneProcess& one) {
  auto ended = values_ended(run, "the ranks");
  if (!ended) ended = values_ended(one.run, "one process");
  for (const auto& moved : one.moved)
    if (!ended) ended = values_ended(moved, "a moved run");
  if (ended) {
    judgement.findings.push_back(std::move(*ended));
    judgement.is_certain = false;
    return;
  }
  const auto here = updates_in(run), there = updates_in(one.run);
  if (here.made == there.made) return;
  const auto compared = std::min(here.with_values, there.with_values);
  const bool ended_within = std::min(here.made, there.made) <= compared &&
                            std::max(here.with_values, there.with_values) > compared;
  auto& into = ended_within ? judgement.findings : judgement.remarks;
  into.push_back(
      {"", "other_number_of_updates", "step " + std::to_string(std::min(here.made, there.made)),
       "the ranks made " + counted(here.made, "update") + ", and one process " +
           std::to_string(there.made) +
           (ended_within ? "" : "; the first " + std::to_string(compared) + " have values")});
  if (ended_within) judgement.is_certain = all_returned(run) && all_returned(one.run);
}

}  // namespace lockstep::recorded
