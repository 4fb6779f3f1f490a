#include "harness/invariants/habits/not_data_parallel.h"

#include "harness/invariants/habits/local_rounds.h"
#include "harness/invariants/habits/own_parts.h"
#include "harness/invariants/habits/populations.h"
#include "harness/invariants/local_updates.h"
#include "harness/invariants/unwrapped.h"
#include "harness/recorded/passes.h"
#include "harness/verdict/trace.h"

#include <algorithm>
#include <map>
#include <set>

namespace lockstep::recorded {

namespace {

constexpr const char* kTrainsInStages =
    "the ranks train parameters of their own and send each other tensors, as the "
    "stages of a pipeline do";
constexpr const char* kTrainsInParts =
    "the losses of the ranks pass through collectives of what they compute from the "
    "same batches, and nothing averages gradients: each rank trains a part of the model, as in "
    "tensor parallelism";
constexpr const char* kMixes =
    "the ranks train parameters of their own, and exchanges between updates mix them "
    "without making them equal, as elastic averaging and gossip do";
constexpr const char* kInTurns =
    "in rounds between collectives of all ranks some ranks make no updates, as clients "
    "of federated averaging that take part in turns: steps of the ranks are not of one round";
constexpr const char* kPopulation =
    "each rank trains a model of its own, and models of several ranks take the places "
    "of others, as in population-based training";
constexpr const char* kOwnParts =
    "the optimizer of each rank has parameters of its own, and the rank sends them "
    "after each update, as with ZeRO by hand; where lockstep_recorder.watch(model) names the "
    "model, all of them are compared";

bool has_fact(const Rank& rank, std::string_view name) {
  return std::any_of(rank.records.begin(), rank.records.end(),
                     [&](const auto& record) { return fact_in(record, name) != nullptr; });
}

// Tensors that the rank sends to one other, and not in collectives.
bool sends_to_single_ranks(const Rank& rank) {
  const auto& events = rank.history.events;
  return has_fact(rank, "exchange") ||
         std::any_of(events.begin(), events.end(), [](const auto& event) {
           const auto* is = std::get_if<Collective>(&event.what);
           return is && is_point_to_point(is->op);
         });
}

template <class Is>
bool holds_of_all(const RecordedRun& run, Is is) {
  return std::all_of(run.ranks.begin(), run.ranks.end(), is);
}

bool trains_in_stages(const RecordedRun& run) {
  if (!holds_of_all(run, [](const Rank& rank) { return sends_to_single_ranks(rank); }))
    return false;
  for (const auto& row : rows_of(run, role::kParameters))
    if (row.at.phase == phase::kConstruction && (!row.is_whole() || difference_in(row, "")))
      return true;
  return false;
}

// Steps in whose forward the rank's loss passes through a collective.
size_t steps_through_collectives(const Rank& rank) {
  std::set<int> steps;
  for (const auto& record : rank.records)
    if (const auto* fact = fact_in(record, fact::kCall);
        fact && fact->truth("graph") && record.at.phase != phase::kBackward)
      steps.insert(record.at.step);
  return steps.size();
}

bool take_the_same_batches(const RecordedRun& run) {
  const auto rows = pass_rows(run);
  return std::all_of(rows.begin(), rows.end(), [](const PassRow& row) {
    return std::all_of(row.by_rank.begin(), row.by_rank.end(), [&](const Pass& pass) {
      const auto& first = row.by_rank.front();
      return pass.batches.size() == first.batches.size() &&
             (pass.batches.empty() || pass.batches.front().print == first.batches.front().print);
    });
  });
}

// True if no tensor that is not zero is the same on all ranks.
bool differs_everywhere(const Row& row) {
  const auto& first = *row.by_rank.front();
  for (size_t tensor = 0; tensor < first.values.size(); ++tensor)
    if (first.values[tensor].norm > 0 &&
        std::all_of(row.by_rank.begin(), row.by_rank.end(), [&](const Digests* is) {
          return tensor < is->values.size() && is->values[tensor].bits == first.values[tensor].bits;
        }))
      return false;
  return true;
}

// Moments between updates at which all ranks have other parameters than before, all unlike.
size_t moments_of_mixing(const RecordedRun& run) {
  size_t count = 0;
  for (const auto& row : rows_of(run, role::kParameters)) {
    if (row.at.phase != phase::kForward || !is_optimizer(row.of)) continue;
    if (!row.is_whole() || !differs_everywhere(row)) return 0;
    ++count;
  }
  return count;
}

bool exchanges_parameters(const Rank& rank) {
  std::map<std::string, int64_t> elements;
  for (const auto& record : rank.records)
    if (const auto* is = digests_in(record, role::kParameters)) {
      auto& count = elements[is->list->of] = 0;
      for (const auto& tensor : is->list->tensors) count += count_of(tensor.shape);
    }
  int64_t all = 0;
  for (const auto& [of, count] : elements) all += count;
  return sends_to_single_ranks(rank) || elements_averaged(rank) >= all;
}

}  // namespace

bool computes_through_collectives(const RecordedRun& run) {
  return holds_of_all(run, [](const Rank& rank) { return steps_through_collectives(rank) > 0; });
}

bool trains_in_parts(const RecordedRun& run) {
  constexpr size_t kStepsLeast = 2;
  return holds_of_all(run,
                      [](const Rank& rank) {
                        return !wraps_a_model(rank) &&
                               steps_through_collectives(rank) >= kStepsLeast;
                      }) &&
         takes_own_gradients(run) && take_the_same_batches(run);
}

const char* not_data_parallel(const RecordedRun& run) {
  constexpr size_t kTimesLeast = 2;
  if (run.ranks.size() == 1 || std::any_of(run.ranks.begin(), run.ranks.end(),
                                           [](const auto& is) { return wraps_a_model(is); }))
    return nullptr;
  if (trains_in_stages(run)) return kTrainsInStages;
  if (trains_in_parts(run)) return kTrainsInParts;
  if (updates_in_turns(run)) return kInTurns;
  if (trains_a_population(run)) return kPopulation;
  if (updates_own_parts(run)) return kOwnParts;
  if (holds_of_all(run, exchanges_parameters) && takes_own_gradients(run) &&
      moments_of_mixing(run) >= kTimesLeast)
    return kMixes;
  return nullptr;
}

}  // namespace lockstep::recorded
