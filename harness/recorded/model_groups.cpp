#include "harness/recorded/model_groups.h"

#include "harness/recorded/divided.h"

#include <algorithm>
#include <map>
#include <set>

namespace lockstep::recorded {

namespace {

std::vector<int> ranks_in(const Fact& model) {
  std::vector<int> ranks;
  for (const auto& each : model.values.value("ranks", Json::array()))
    if (each.is_number_integer()) ranks.push_back(each.get<int>());
  return ranks;
}

// The ranks for which a rank wrapped its models; none where they are not the same for all of these,
// or it is not among them.
std::vector<int> group_of(const Rank& rank) {
  std::set<std::vector<int>> groups;
  for (const auto& record : rank.records)
    if (const auto* model = model_in(record);
        model && model->text("wrapper") == "DistributedDataParallel")
      groups.insert(ranks_in(*model));
  if (groups.size() != 1) return {};
  auto group = *groups.begin();
  return std::find(group.begin(), group.end(), rank.number) == group.end() ? std::vector<int>()
                                                                           : group;
}

}  // namespace

std::vector<GroupRun> runs_of_groups(const RecordedRun& run) {
  std::map<std::vector<int>, std::vector<int>> members;  // by group, those that name it
  for (const auto& rank : run.ranks) {
    if (!shards_of(rank).empty()) return {};
    members[group_of(rank)].push_back(rank.number);
  }
  std::vector<GroupRun> groups;
  for (const auto& [group, ranks] : members) {
    if (group != ranks) return {};
    GroupRun of{.ranks = group, .run = {}};
    for (const int number : group) {
      auto& rank = of.run.ranks.emplace_back(run.ranks[static_cast<size_t>(number)]);
      rank.number = static_cast<int>(of.run.ranks.size()) - 1;
      rank.world = static_cast<int>(group.size());
    }
    groups.push_back(std::move(of));
  }
  return groups.size() > 1 ? std::move(groups) : std::vector<GroupRun>();
}

}  // namespace lockstep::recorded
