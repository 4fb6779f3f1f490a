// Judges whether updates take the average of the ranks' gradients, in which each term of the losses
// counts alike.
#include "harness/base/characters.h"
#include "harness/base/text.h"
#include "harness/invariants/against/against_causes.h"
#include "harness/invariants/averages/loss_weights.h"
#include "harness/recorded/divided.h"
#include "harness/verdict/trace.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace lockstep::recorded {

namespace {

struct Found {
  Finding finding;
  Moment at;
};

// Some values of gradients, by tensor, as a rank had computed them and as an update took them.
using Values = std::map<std::string, std::vector<double>>;
struct Averaged {
  Moment at;
  std::string of;
  Values own, taken;
};

Values values_in(const Fact& fact) {
  Values values;
  const auto tensors = fact.values.find("tensors");
  if (tensors == fact.values.end() || !tensors->is_object()) return values;
  for (const auto& [name, numbers] : tensors->items())
    if (numbers.is_array() &&
        std::all_of(numbers.begin(), numbers.end(), [](const Json& is) { return is.is_number(); }))
      values[one_line(name)] = numbers.get<std::vector<double>>();
  return values;
}

std::vector<Averaged> averaged_by(const Rank& rank) {
  std::map<std::string, Values> own;
  std::vector<Averaged> all;
  for (const auto& record : rank.records) {
    const auto* fact = std::get_if<Fact>(&record.what);
    if (!fact) continue;
    if (fact->name == "own gradients")
      for (auto& [name, values] : values_in(*fact)) own[fact->text("of")][name] = std::move(values);
    if (fact->name == "averaged gradients")
      all.push_back({record.at, fact->text("of"), std::exchange(own[fact->text("of")], {}),
                     values_in(*fact)});
  }
  return all;
}

// True if what all ranks took is the sum of what they had, in every value where that is not near
// zero.
bool is_sum(const std::vector<const Averaged*>& ranks) {
  constexpr double kPart = 0.05, kCancelled = 0.1;  // half precision rounds too
  constexpr size_t kValuesLeast = 3;
  size_t informative = 0;
  for (const auto& [name, taken] : ranks.front()->taken)
    for (size_t at = 0; at < taken.size(); ++at) {
      double sum = 0, size = 0;
      for (const auto* rank : ranks) {
        const auto own = rank->own.find(name), also = rank->taken.find(name);
        if (own == rank->own.end() || at >= own->second.size() || also == rank->taken.end() ||
            at >= also->second.size() || also->second[at] != taken[at])
          return false;
        sum += own->second[at];
        size += std::abs(own->second[at]);
      }
      if (!(std::abs(sum) > kCancelled * size)) continue;
      ++informative;
      if (!(std::abs(taken[at] - sum) <= kPart * std::abs(sum))) return false;
    }
  return informative >= kValuesLeast;
}

Finding summed(const Averaged& is, const std::string& who) {
  return {"",
          "sum_not_average",
          "step " + std::to_string(is.at.step) + ", " + is.at.phase,
          who + " of " + is.of +
              " are the sum of those that the ranks computed, and not their average: every value "
              "is that of one process times the number of ranks",
          {"cause: an all-reduce whose result is not divided by the number of ranks, in a "
           "communication hook say: divide it, or reduce with ReduceOp.AVG"}};
}

// Gradients that a communication hook or the program summed over the ranks. A loss that the program
// divides itself wants a sum; where it is not known, this is a remark.
void add_sums(const RecordedRun& run, Judgement& judgement, size_t& compared) {
  std::vector<std::vector<Averaged>> all;
  for (const auto& rank : run.ranks) all.push_back(averaged_by(rank));
  for (size_t number = 0; number < all.front().size(); ++number) {
    std::vector<const Averaged*> ranks;
    for (const auto& rank : all)
      if (number < rank.size() && rank[number].of == all.front()[number].of)
        ranks.push_back(&rank[number]);
    if (ranks.size() < all.size()) continue;
    ++compared;
    if (!is_sum(ranks)) continue;
    const auto& first = *ranks.front();
    const auto weights = loss_weights_in(run, first.at.step);
    if (weights == LossWeights::divided) continue;
    auto finding =
        summed(first, first.at.phase == "backward" ? "the gradients after a backward"
                                                   : "the gradients that an update took");
    if (weights == LossWeights::whole && judgement.findings.empty()) {
      judgement.findings.push_back(std::move(finding));
      judgement.at = first.at;
    } else if (weights == LossWeights::unknown && judgement.remarks.empty()) {
      judgement.remarks.push_back(std::move(finding));
    }
    return;
  }
}

// The elements that the program's own all-reduces summed in a step behind its first backward.
double elements_summed(const Rank& rank, int step) {
  double elements = 0;
  for (const auto& event : rank.history.events)
    if (const auto* is = std::get_if<Collective>(&event.what);
        is && is->op == "allreduce" && event.at.step == step &&
        (event.at.phase == "backward" || event.at.phase == "update"))
      elements += static_cast<double>(is->elements);
  return elements;
}

// The factor by which all tensors of an update are larger than after the backward before; 0 where
// they have no such factor.
double factor_between(const Digests& before, const Digests& after) {
  double factor = 0;
  if (before.values.size() != after.values.size()) return 0;
  for (size_t tensor = 0; tensor < before.values.size(); ++tensor) {
    const auto &from = before.values[tensor], &to = after.values[tensor];
    if (!(from.norm > 0)) continue;
    const double here = to.norm / from.norm;
    if (!(std::abs(here - (factor == 0 ? here : factor)) <= 1e-3 * here)) return 0;
    factor = here;
  }
  return factor;
}

// An update from averages that an all-reduce has summed over the ranks once more.
std::optional<Found> summed_again(const RecordedRun& run) {
  const auto world = static_cast<double>(run.ranks.size());
  for (const auto& rank : run.ranks) {
    std::map<std::string, const Digests*> last;
    for (const auto& record : rank.records) {
      const auto* digests = std::get_if<Digests>(&record.what);
      if (!digests) continue;
      const auto& list = *digests->list;
      if (list.role == "gradients") last[list.of] = digests;
      if (list.role != "taken" || !last.contains(list.of)) continue;
      double elements = 0;
      for (const auto& tensor : list.tensors)
        elements += static_cast<double>(count_of(tensor.shape));
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
           {"cause: DistributedDataParallel averages in the backward: leave out the all-reduce of "
            "gradients behind it"}},
          record.at};
    }
  }
  return {};
}

// Gradients that a GradScaler's scale still multiplied as they were clipped.
std::optional<Found> clipped_while_scaled(const RecordedRun& run) {
  for (const auto& rank : run.ranks)
    for (const auto& record : rank.records) {
      const auto* fact = std::get_if<Fact>(&record.what);
      if (!fact || fact->name != "clip") continue;
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
                        " while the scale of a GradScaler, " + with_commas(std::llround(scale)) +
                        ", multiplied them: once it is divided out, updates are that much smaller",
                    {"cause: no scaler.unscale_(optimizer) between the backward and the clipping"}},
                   record.at};
    }
  return {};
}

// Updates that took gradients whose all-reduce the program had begun and not waited for.
std::optional<Found> not_waited(const RecordedRun& run) {
  for (const auto& rank : run.ranks)
    for (const auto& record : rank.records) {
      const auto* fact = std::get_if<Fact>(&record.what);
      if (!fact || fact->name != "unwaited") continue;
      const auto place = "step " + std::to_string(record.at.step) + ", update";
      return Found{
          {"",
           "not_waited",
           place,
           "rank " + std::to_string(rank.number) + ": the update of " + place + " took " +
               counted(fact->whole("gradients").value_or(0), "gradient") +
               " whose all-reduce the program had begun with async_op=True and not waited for: it "
               "may take the rank's own, or half a sum",
           {"cause: no wait() on what all_reduce returned, before optimizer.step()"}},
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
      if (fact->name == "clip" &&
          fact->number("norm").value_or(0) > fact->number("most").value_or(0))
        for (const auto& of : fact->values.value("own", Json::array()))
          if (of.is_string()) clipped[one_line(of.get<std::string>())] = &record;
      if (fact->name != "averaged gradients" || !clipped.contains(fact->text("of")) ||
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
  add_sums(run, judgement, compared);
  for (auto found : {summed_again(run), clipped_while_scaled(run), not_waited(run)})
    if (found && judgement.findings.empty()) {
      judgement.findings.push_back(std::move(found->finding));
      judgement.at = found->at;
    }
  if (auto clipped = clipped_before_averaging(run)) judgement.remarks.push_back(*clipped);
  size_t backwards = 0;
  if (auto unlike = terms_weighed_unlike(run, backwards)) judgement.remarks.push_back(*unlike);
  if (compared + backwards == 0 && judgement.findings.empty() && judgement.remarks.empty())
    return {.why_not = "no rank recorded over how many terms its losses average"};
  std::vector<std::string> parts;
  if (compared > 0) parts.push_back(counted(compared, "average"));
  if (backwards > 0) parts.push_back("terms of " + counted(backwards, "loss", "losses"));
  judgement.compared = joined(parts, " · ");
  return judgement;
}

}  // namespace lockstep::recorded
