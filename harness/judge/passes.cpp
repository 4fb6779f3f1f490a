#include "harness/judge/passes.h"

#include "harness/core/text.h"

#include <algorithm>

namespace lockstep::recorded {

namespace {

bool is_source(const std::string& name) {
  return name.starts_with("loader ") || name.starts_with("sampler ");
}

}  // namespace

bool PassRow::all(bool Pass::*member) const {
  return std::all_of(by_rank.begin(), by_rank.end(), [&](const Pass& p) { return p.*member; });
}

bool PassRow::is_sharded() const {
  return std::all_of(by_rank.begin(), by_rank.end(), [](const Pass& p) { return p.is_sharded(); });
}

Passes passes_of(const Rank& rank) {
  const std::string exhausted = " exhausted";
  Passes passes;
  std::string last;  // the source that dealt last
  for (const auto& record : rank.records) {
    if (const auto* drawn = std::get_if<Drawn>(&record.what)) {
      const auto found = passes.find(drawn->name);
      if (found == passes.end()) continue;
      auto& indices = found->second.back().indices;
      indices.insert(indices.end(), drawn->indices.begin(), drawn->indices.end());
      found->second.back().batch_ends.push_back(indices.size());
      last = drawn->name;
    }
    const auto* fact = std::get_if<Fact>(&record.what);
    if (!fact) continue;
    if (fact->name == "backward" && !last.empty()) passes[last].back().trains = true;
    if (!is_source(fact->name)) continue;
    if (!fact->name.ends_with(exhausted)) {
      passes[fact->name].push_back({.is = fact});
    } else if (const auto found =
                   passes.find(fact->name.substr(0, fact->name.size() - exhausted.size()));
               found != passes.end()) {
      found->second.back().is_exhausted = true;
    }
  }
  return passes;
}

std::vector<PassRow> pass_rows(const RecordedRun& run) {
  std::vector<Passes> all;
  for (const auto& rank : run.ranks) all.push_back(passes_of(rank));
  std::vector<PassRow> rows;
  for (const auto& [source, passes] : all.front())
    for (size_t number = 0; number < passes.size(); ++number) {
      PassRow row{.source = source, .number = number};
      for (auto& of_rank : all)
        if (const auto found = of_rank.find(source);
            found != of_rank.end() && number < found->second.size())
          row.by_rank.push_back(found->second[number]);
      if (row.by_rank.size() == all.size()) rows.push_back(std::move(row));
    }
  return rows;
}

std::string listed(const std::vector<int64_t>& numbers) {
  constexpr size_t kMost = 8;
  std::vector<std::string> texts;
  for (size_t i = 0; i < std::min(numbers.size(), kMost); ++i)
    texts.push_back(std::to_string(numbers[i]));
  return joined(texts, ", ") +
         (numbers.size() > kMost ? " and " + std::to_string(numbers.size() - kMost) + " more" : "");
}

}  // namespace lockstep::recorded
