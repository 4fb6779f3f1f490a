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

// True if it makes no backward and no update, as a rank that evaluates what the others train.
bool trains_nothing(const Rank& rank) {
  return std::none_of(rank.records.begin(), rank.records.end(), [](const Record& record) {
    const auto* fact = std::get_if<Fact>(&record.what);
    return is_backward(record) || (fact && is_optimizer(fact->name));
  });
}

}  // namespace

std::vector<GroupRun> runs_of_groups(const RecordedRun& run) {
  std::map<std::vector<int>, std::vector<int>> members;  // by group, those that name it
  for (const auto& rank : run.ranks) {
    if (!shards_of(rank).empty()) return {};
    const auto group = group_of(rank);
    if (group.empty() && trains_nothing(rank)) continue;
    members[group].push_back(rank.number);
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
  const bool is_whole = groups.size() == 1 && groups.front().ranks.size() == run.ranks.size();
  return is_whole ? std::vector<GroupRun>() : std::move(groups);
}

std::vector<int> ranks_beside(const std::vector<GroupRun>& groups, int world) {
  std::vector<int> beside;
  for (int rank = 0; rank < world; ++rank)
    if (std::none_of(groups.begin(), groups.end(), [rank](const GroupRun& group) {
          return std::find(group.ranks.begin(), group.ranks.end(), rank) != group.ranks.end();
        }))
      beside.push_back(rank);
  return beside;
}

}  // namespace lockstep::recorded
