// Judges whether updates take the average of the ranks' gradients, in which each term of the losses
// counts alike.
#include "harness/base/text.h"
#include "harness/invariants/against/against_causes.h"
#include "harness/invariants/averages/divided_again.h"
#include "harness/invariants/averages/factors.h"
#include "harness/invariants/averages/loss_weights.h"
#include "harness/invariants/taken_gradients.h"
#include "harness/recorded/divided.h"
#include "harness/verdict/trace.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace lockstep::recorded {

namespace {

// The elements that the program's own all-reduces summed in a step behind its first backward.
double elements_summed(const Rank& rank, int step) {
  double elements = 0;
  for (const auto& event : rank.history.events)
    if (const auto* is = std::get_if<Collective>(&event.what);
        is && is->op == "allreduce" && event.at.step == step &&
        (event.at.phase == phase::kBackward || event.at.phase == phase::kUpdate))
      elements += static_cast<double>(is->elements);
  return elements;
}

// True if a communication hook of the program averages gradients of the model.
bool averages_in_a_hook(const AveragesOfRun& averages, const std::string& model) {
  return std::ranges::any_of(averages.all(), [&](const AveragedByRank& ranks) {
    const auto& is = *ranks.front();
    return is.of == model && is.at.phase == phase::kBackward;
  });
}

// An update from averages that an all-reduce has summed over the ranks once more.
std::optional<Found> summed_again(const RecordedRun& run, const AveragesOfRun& averages) {
  const auto world = static_cast<double>(run.ranks.size());
  for (const auto& rank : run.ranks) {
    std::map<std::string, const Digests*> last;
    for (const auto& record : rank.records) {
      const auto* digests = std::get_if<Digests>(&record.what);
      if (!digests) continue;
      const auto& list = *digests->list;
      if (list.role == role::kGradients) last[list.of] = digests;
      if (list.role != role::kTaken || !last.contains(list.of)) continue;
      double elements = 0;
      for (const auto& tensor : list.tensors)
        elements += static_cast<double>(count_of(tensor.shape));
      if (averages_in_a_hook(averages, list.of)) elements *= 2;
      const double factor = factor_between(*last[list.of], *digests);
      if (std::abs(factor - world) > 1e-3 * world ||
          elements_summed(rank, record.at.step) < elements ||
          loss_weights_in(run, record.at.step) == LossWeights::divided)
        continue;
      const auto place = "step " + std::to_string(record.at.step) + ", update";
      return Found{
          {"",
           "summed_again",
           place,
           "rank " + std::to_string(rank.number) + ": the update of " + place +
               " took gradients of " + list.of + " that are " + std::to_string(run.ranks.size()) +
               " times, the number of ranks, those that its DistributedDataParallel had averaged: "
               "the program's all-reduce summed the averages once more",
           {Cause{"DistributedDataParallel averages in the backward: leave out the all-reduce of "
                  "gradients behind it"}}},
          record.at};
    }
  }
  return {};
}

// Gradients that a GradScaler's scale still multiplied as they were clipped.
std::optional<Found> clipped_while_scaled(const RecordedRun& run) {
  for (const auto& rank : run.ranks)
    for (const auto& record : rank.records) {
      const auto* fact = fact_in(record, fact::kClip);
      if (!fact) continue;
      const double scale = fact->number("scale").value_or(1),
                   most = fact->number("most").value_or(0),
                   norm = fact->number("norm").value_or(2 * most);
      if (!(scale > 1) || !(most < scale) || !(norm > most)) continue;
      const auto place = "step " + std::to_string(record.at.step) + ", backward";
      return Found{{"",
                    "clipped_while_scaled",
                    place,
                    fact->text("function") + "() of step " + std::to_string(record.at.step) +
                        " clipped gradients to " + short_number(most) +
                        " while the scale of a GradScaler, " +
                        (scale < 1e15 ? with_commas(std::llround(scale)) : short_number(scale)) +
                        ", multiplied them: once it is divided out, updates are that much smaller",
                    {Cause{"no scaler.unscale_(optimizer) between the backward and the clipping"}}},
                   record.at};
    }
  return {};
}

// Updates that took gradients whose all-reduce the program had begun and not waited for.
std::optional<Found> not_waited(const RecordedRun& run) {
  for (const auto& rank : run.ranks)
    for (const auto& record : rank.records) {
      const auto* fact = fact_in(record, fact::kUnwaited);
      if (!fact) continue;
      const auto place = "step " + std::to_string(record.at.step) + ", update";
      return Found{
          {"",
           "not_waited",
           place,
           "rank " + std::to_string(rank.number) + ": the update of " + place + " took " +
               counted(fact->whole("gradients").value_or(0), "gradient") +
               " whose all-reduce the program had begun with async_op=True and not waited for: it "
               "may take the rank's own, or half a sum",
           {Cause{"no wait() on what all_reduce returned, before optimizer.step()"}}},
          record.at};
    }
  return {};
}

// Ranks that clipped gradients of their own, by their own norm, before something averaged them.
std::optional<Finding> clipped_before_averaging(const RecordedRun& run) {
  for (const auto& rank : run.ranks) {
    std::map<std::string, const Record*> clipped;
    for (const auto& record : rank.records) {
      const auto* fact = std::get_if<Fact>(&record.what);
      if (!fact) continue;
      if (fact->name == fact::kClip &&
          fact->number("norm").value_or(0) > fact->number("most").value_or(0))
        for (const auto& of : fact->texts("own")) clipped[one_line(of)] = &record;
      if (fact->name != fact::kAveragedGradients || !clipped.contains(fact->text("of")) ||
          record.at.step != clipped[fact->text("of")]->at.step ||
          elements_summed(rank, record.at.step) == 0)
        continue;
      const auto place = "step " + std::to_string(record.at.step) + ", backward";
      return Finding{"", "clipped_before_averaging", place,
                     "rank " + std::to_string(rank.number) + " clipped gradients of " +
                         fact->text("of") + " in " + place +
                         " before they were averaged: each rank clips by the norm of its own, "
                         "which is not the clipping of one process"};
    }
  }
  return {};
}

}  // namespace

Judgement gradients_are_averages(const RecordedRun& run) {
  if (run.ranks.size() == 1) return {.why_not = "one rank alone"};
  Judgement judgement;
  size_t compared = 0;
  const AveragesOfRun averages(run);
  add_factors(run, averages, judgement, compared);
  for (auto found : {summed_again(run, averages), clipped_while_scaled(run), not_waited(run)})
    judgement.add(std::move(found));
  judgement.add(divided_again(run, averages));
  if (auto clipped = clipped_before_averaging(run)) judgement.remarks.push_back(*clipped);
  size_t backwards = 0;
  judgement.remarks += terms_weighed_unlike(run, backwards);
  for (auto remark : {classes_weighed_unlike(run), labels_without_offset(run)})
    if (remark) judgement.remarks.push_back(std::move(*remark));
  if (compared + backwards == 0 && judgement.findings.empty() && judgement.remarks.empty())
    return {.why_not =
                "nothing averaged gradients, or no rank recorded over how many terms its losses "
                "average"};
  std::vector<std::string> parts;
  if (compared > 0) parts.push_back(counted(compared, "average"));
  if (backwards > 0) parts.push_back("terms of " + counted(backwards, "loss", "losses"));
  judgement.compared = joined(parts, " · ");
  return judgement;
}

}  // namespace lockstep::recorded
