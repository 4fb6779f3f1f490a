#include "harness/invariants/averages/averaged.h"

#include "harness/base/characters.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

namespace lockstep::recorded {

namespace {

GradientValues values_in(const Fact& fact) {
  GradientValues values;
  const auto tensors = fact.values.find("tensors");
  if (tensors == fact.values.end() || !tensors->is_object()) return values;
  for (const auto& [name, numbers] : tensors->items())
    if (numbers.is_array() &&
        std::all_of(numbers.begin(), numbers.end(), [](const Json& is) { return is.is_number(); }))
      values[one_line(name)] = numbers.get<std::vector<double>>();
  return values;
}

std::vector<AveragedGradients> averaged_by(const Rank& rank) {
  std::map<std::string, AveragedGradients> own;
  std::map<std::pair<int, std::string>, size_t> backwards;  // of a model, or of what is in none
  std::vector<AveragedGradients> all;
  for (const auto& record : rank.records) {
    const auto* fact = std::get_if<Fact>(&record.what);
    if (!fact) continue;
    if (fact->name == fact::kBackward) ++backwards[{record.at.step, fact->text("model")}];
    if (fact->name == fact::kOwnGradients) {
      auto& is = own[fact->text("of")];
      is.is_hooked = is.is_hooked || fact->values.value("hooked", false);
      for (auto& [name, values] : values_in(*fact)) is.own[name] = std::move(values);
      if (is_optimizer(fact->text("of"))) ++backwards[{record.at.step, fact->text("of")}];
    }
    if (fact->name == fact::kAveragedGradients) {
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

bool steps_multiply(const RecordedRun& run) {
  constexpr double kPart = 0.01;
  const auto world = static_cast<double>(run.ranks.size());
  return std::ranges::all_of(run.ranks, [&](const Rank& rank) {
    std::set<std::string> updating, multiplying;
    for (const auto& record : rank.records) {
      if (const auto* update = optimizer_in(record)) updating.insert(update->name);
      const auto* fact = fact_in(record, fact::kMultiplied);
      if (!fact) continue;
      if (!(std::abs(fact->number("by").value_or(0) - world) < kPart * world)) return false;
      multiplying.insert(fact->text("optimizer"));
    }
    return !updating.empty() && updating == multiplying;
  });
}

}  // namespace

std::vector<AveragedValue> values_of(const AveragedByRank& ranks) {
  std::vector<AveragedValue> values;
  for (const auto& [name, taken] : ranks.front()->taken)
    for (size_t at = 0; at < taken.size(); ++at) {
      AveragedValue value{.own = {}, .taken = taken[at]};
      for (const auto* rank : ranks) {
        const auto own = rank->own.find(name), also = rank->taken.find(name);
        if (own == rank->own.end() || at >= own->second.size() || also == rank->taken.end() ||
            at >= also->second.size() || also->second[at] != taken[at])
          return {};
        value.own.push_back(own->second[at]);
      }
      values.push_back(std::move(value));
    }
  return values;
}

std::string gradients_text(const AveragedGradients& is) {
  return std::string(is.at.phase == phase::kBackward ? "the gradients after a backward"
                                                     : "the gradients that an update took") +
         " of " + is.of;
}

AveragesOfRun::AveragesOfRun(const RecordedRun& run)
    : are_multiplied_by_steps_(steps_multiply(run)) {
  for (const auto& rank : run.ranks) by_rank_.push_back(averaged_by(rank));
  for (size_t number = 0; number < by_rank_.front().size(); ++number) {
    AveragedByRank ranks;
    for (const auto& rank : by_rank_)
      if (number < rank.size() && rank[number].of == by_rank_.front()[number].of)
        ranks.push_back(&rank[number]);
    if (ranks.size() == by_rank_.size()) all_.push_back(std::move(ranks));
  }
}

}  // namespace lockstep::recorded
