#include "harness/invariants/averages/factors.h"

#include "harness/base/characters.h"
#include "harness/base/text.h"
#include "harness/invariants/averages/loss_weights.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

namespace lockstep::recorded {

namespace {

// Some values of gradients, by tensor, as a rank had computed them and as an update took them.
using Values = std::map<std::string, std::vector<double>>;
struct Averaged {
  Moment at;
  std::string of;
  Values own, taken;
  bool is_hooked = false;  // a tensor hook of the program had them first
  size_t backwards = 0;    // since the update before, where those of a model are known
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
  std::map<std::string, Averaged> own;
  std::map<std::pair<int, std::string>, size_t> backwards;  // of a model, or of what is in none
  std::vector<Averaged> all;
  for (const auto& record : rank.records) {
    const auto* fact = std::get_if<Fact>(&record.what);
    if (!fact) continue;
    if (fact->name == "backward") ++backwards[{record.at.step, fact->text("model")}];
    if (fact->name == "own gradients") {
      auto& is = own[fact->text("of")];
      is.is_hooked = is.is_hooked || fact->values.value("hooked", false);
      for (auto& [name, values] : values_in(*fact)) is.own[name] = std::move(values);
      if (fact->text("of").starts_with("optimizer "))
        ++backwards[{record.at.step, fact->text("of")}];
    }
    if (fact->name == "averaged gradients") {
      auto is = std::exchange(own[fact->text("of")], {});
      is.at = record.at;
      is.of = fact->text("of");
      is.taken = values_in(*fact);
      all.push_back(std::move(is));
    }
  }
  for (auto& is : all) is.backwards = backwards[{is.at.step, is.of}];
  return all;
}

using Ranks = std::vector<const Averaged*>;  // the same average, by rank

// True if what all ranks took is `factor` times the average of what they had, in every value where
// that is not near zero.
bool is_times_the_average(const Ranks& ranks, double factor) {
  constexpr double kPart = 0.05, kCancelled = 0.1;  // half precision rounds too
  constexpr size_t kValuesLeast = 3;
  const auto world = static_cast<double>(ranks.size());
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
      const double wanted = factor * sum / world;
      if (!(std::abs(taken[at] - wanted) <= kPart * std::abs(wanted))) return false;
    }
  return informative >= kValuesLeast;
}

// True if ranks exchange activations in a step: parts of one model, whose gradients want a sum.
bool exchanges_activations(const RecordedRun& run, int step) {
  constexpr int64_t kMetricElementsMost = 1024;
  for (const auto& rank : run.ranks)
    for (const auto& event : rank.history.events)
      if (const auto* is = std::get_if<Collective>(&event.what);
          is && event.at.step == step && event.at.phase == "forward" &&
          !is->op.starts_with("ddp_") && is->elements > kMetricElementsMost)
        return true;
  return false;
}

std::string which(const Averaged& is) {
  return std::string(is.at.phase == "backward" ? "the gradients after a backward"
                                               : "the gradients that an update took") +
         " of " + is.of;
}

Finding finding_of(const Averaged& is, const char* pattern, const char* what, std::string cause) {
  return {"",
          pattern,
          "step " + std::to_string(is.at.step) + ", " + is.at.phase,
          which(is) + what,
          {std::move(cause)}};
}

Finding summed(const Averaged& is) {
  return finding_of(
      is, "sum_not_average",
      " are the sum of those that the ranks computed, and not their average: every value is that "
      "of one process times the number of ranks",
      std::string("cause: an all-reduce whose result is not divided by the number of ranks, in ") +
          (is.is_hooked ? "a hook of a parameter (register_hook)" : "a communication hook") +
          " say: divide it, or reduce with ReduceOp.AVG");
}

Finding divided_twice(const Averaged& is) {
  return finding_of(
      is, "divided_twice",
      " are the average of those that the ranks computed, divided by the number of ranks once "
      "more: every value is that of one process divided by the number of ranks",
      "cause: a communication hook, or an average by hand, that divides both before the "
      "all-reduce and after it, or divides the result of ReduceOp.AVG: divide once");
}

// The first that is certain is a finding, and the first of the others a remark.
void add(Judgement& judgement, bool is_certain, Finding finding, const Moment& at) {
  if (is_certain && judgement.findings.empty()) {
    judgement.findings.push_back(std::move(finding));
    judgement.at = at;
  } else if (judgement.remarks.empty()) {
    judgement.remarks.push_back(std::move(finding));
  }
}

// Where a loss that the program multiplies by the number of ranks does not want it.
void add_divided_twice(const RecordedRun& run, const std::vector<Ranks>& all,
                       Judgement& judgement) {
  constexpr size_t kTimesLeast = 2;  // clipping may hit the factor once
  const auto world = static_cast<double>(run.ranks.size());
  std::map<std::string, std::vector<const Averaged*>> divided;
  std::set<std::string> others;
  for (const auto& ranks : all) {
    const auto& first = *ranks.front();
    if (first.backwards == 1 && is_times_the_average(ranks, 1 / world))
      divided[first.of].push_back(&first);
    else
      others.insert(first.of);
  }
  for (const auto& [of, times] : divided) {
    if (times.size() < kTimesLeast || others.contains(of)) continue;
    const auto& first = *times.front();
    const auto weights = loss_weights_in(run, first.at.step);
    if (weights == LossWeights::multiplied) continue;
    add(judgement, weights == LossWeights::whole, divided_twice(first), first.at);
  }
}

void add_sums(const RecordedRun& run, const std::vector<Ranks>& all, Judgement& judgement) {
  for (const auto& ranks : all) {
    const auto& first = *ranks.front();
    if (!is_times_the_average(ranks, static_cast<double>(ranks.size()))) continue;
    const auto weights = loss_weights_in(run, first.at.step);
    if (weights == LossWeights::divided ||
        (first.is_hooked && exchanges_activations(run, first.at.step)))
      continue;
    add(judgement, weights != LossWeights::unknown, summed(first), first.at);
    return;
  }
}

}  // namespace

void add_factors(const RecordedRun& run, Judgement& judgement, size_t& compared) {
  std::vector<std::vector<Averaged>> by_rank;
  for (const auto& rank : run.ranks) by_rank.push_back(averaged_by(rank));
  std::vector<Ranks> all;
  for (size_t number = 0; number < by_rank.front().size(); ++number) {
    Ranks ranks;
    for (const auto& rank : by_rank)
      if (number < rank.size() && rank[number].of == by_rank.front()[number].of)
        ranks.push_back(&rank[number]);
    if (ranks.size() == by_rank.size()) all.push_back(std::move(ranks));
  }
  compared += all.size();
  add_sums(run, all, judgement);
  add_divided_twice(run, all, judgement);
}

}  // namespace lockstep::recorded
