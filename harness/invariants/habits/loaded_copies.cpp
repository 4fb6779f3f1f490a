#include "harness/invariants/habits/loaded_copies.h"

#include "harness/base/text.h"
#include "harness/verdict/trace.h"

#include <algorithm>
#include <map>

namespace lockstep::recorded {

namespace {

// The steps in which the rank loaded values into models that nothing trains, by their type.
std::map<std::string, std::vector<int>> loads_of(const Rank& rank) {
  std::map<std::string, std::vector<int>> loads;
  for (const auto& record : rank.records)
    if (const auto* fact = std::get_if<Fact>(&record.what);
        fact && is_copy(fact->name) && fact->truth("loaded"))
      loads[fact->text("kind")].push_back(record.at.step);
  return loads;
}

// How many values the rank recorded of each copy that all ranks could have.
std::map<std::string, size_t> values_of_copies(const Rank& rank) {
  std::map<std::string, size_t> counts;
  for (const auto& record : rank.records)
    if (const auto* is = digests_in(record, role::kAverage); is && is_copy(is->list->of))
      ++counts[is->list->of];
  return counts;
}

}  // namespace

Findings changed_on_some_ranks_alone(const RecordedRun& run) {
  constexpr size_t kValuesLeast = 3;  // of a rank that changes it
  std::vector<std::map<std::string, size_t>> all;
  for (const auto& rank : run.ranks) all.push_back(values_of_copies(rank));
  for (const auto& [of, count] : all.front()) {
    std::vector<int> changing, keeping;
    for (size_t rank = 0; rank < all.size(); ++rank) {
      const auto found = all[rank].find(of);
      if (found == all[rank].end()) break;
      if (found->second >= kValuesLeast) changing.push_back(static_cast<int>(rank));
      if (found->second == 1) keeping.push_back(static_cast<int>(rank));
    }
    if (changing.empty() || keeping.empty() || changing.size() + keeping.size() < all.size())
      continue;
    return {{"", "changed_on_some_ranks_alone", "the whole run",
             of + ", is changed again and again on " + ranks_text(changing) +
                 " alone, and stays on " + ranks_text(keeping) +
                 " as it began: right for an average of weights with which those ranks alone "
                 "evaluate. Where a loss uses it, as it does a teacher, ranks train on losses of "
                 "their own: change it on all ranks"}};
  }
  return {};
}

Findings loaded_at_other_steps(const RecordedRun& run) {
  constexpr size_t kLoadsLeast = 2;
  Findings remarks;
  std::vector<std::map<std::string, std::vector<int>>> all;
  for (const auto& rank : run.ranks) all.push_back(loads_of(rank));
  for (const auto& [kind, first] : all.front()) {
    std::vector<std::string> texts;
    bool are_alike = true;
    size_t least = first.size();
    for (const auto& loads : all) {
      const auto found = loads.find(kind);
      std::vector<std::string> steps;
      are_alike = are_alike && found != loads.end() && found->second == first;
      if (found != loads.end())
        for (const int step : found->second) steps.push_back(std::to_string(step));
      least = std::min(least, steps.size());
      texts.push_back("steps " + excerpt(joined(steps, ", ")));
    }
    if (least < kLoadsLeast || are_alike) continue;  // One rank may keep the best ones.
    remarks.push_back({"", "loaded_at_other_steps", "the whole run",
                       "the ranks load values into a " + kind +
                           " that nothing trains at other steps each: " + values_text(texts) +
                           ". Where a loss uses it, as it does a target network, ranks train on "
                           "losses of their own: load it in the same steps on all ranks"});
  }
  return remarks;
}

std::optional<std::string> made_by_each(const RecordedRun& run, const std::string& of) {
  std::optional<std::string> kind;
  bool is_trained = false;
  for (const auto& rank : run.ranks)
    for (const auto& record : rank.records) {
      const auto* fact = fact_in(record, of);
      if (!fact) continue;
      if (fact->truth("loaded")) return {};
      is_trained = is_trained || fact->truth("trained");
      if (fact->values.contains("kind")) kind = fact->text("kind");
    }
  return is_trained ? std::string() : kind;
}

}  // namespace lockstep::recorded
