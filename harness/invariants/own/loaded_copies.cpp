#include "harness/invariants/own/loaded_copies.h"

#include "harness/base/text.h"

#include <algorithm>
#include <map>

namespace lockstep::recorded {

namespace {

// The steps in which the rank loaded values into models that nothing trains, by their type.
std::map<std::string, std::vector<int>> loads_of(const Rank& rank) {
  std::map<std::string, std::vector<int>> loads;
  for (const auto& record : rank.records)
    if (const auto* fact = std::get_if<Fact>(&record.what);
        fact && fact->name.starts_with("copy ") && fact->truth("loaded"))
      loads[fact->text("kind")].push_back(record.at.step);
  return loads;
}

}  // namespace

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

}  // namespace lockstep::recorded
