#include "harness/invariants/against/one_without_wrapper.h"

#include "harness/invariants/optimizers/settings.h"
#include "harness/invariants/rows.h"

#include <algorithm>
#include <map>

namespace lockstep::recorded {

namespace {

using Owned = std::vector<std::pair<std::string, std::string>>;  // {model, name} each

// The names of each model's parameters.
std::map<std::string, std::set<std::string>> names_by_model(const Rank& rank) {
  std::map<std::string, std::set<std::string>> names;
  for (const auto& record : rank.records) {
    const auto* digests = digests_in(record, role::kParameters);
    if (!digests) continue;
    for (const auto& tensor : digests->list->tensors) names[digests->list->of].insert(tensor.name);
  }
  return names;
}

bool is_of_whole_models(const Owned& owned,
                        const std::map<std::string, std::set<std::string>>& names) {
  std::map<std::string, std::set<std::string>> here;
  for (const auto& [model, name] : owned) here[model].insert(name);
  return std::all_of(here.begin(), here.end(), [&](const auto& is) {
    const auto found = names.find(is.first);
    return found != names.end() && found->second == is.second;
  });
}

// The parameters that each optimizer of the ranks updates, where they are those of whole models.
std::map<std::string, Owned> owned_by_optimizer(const Rank& rank) {
  const auto names = names_by_model(rank);
  std::map<std::string, Owned> all;
  for (const auto& record : rank.records) {
    const auto* fact = optimizer_in(record);
    if (!fact || fact->whole("foreign") != 0) continue;
    if (auto owned = owned_in(*fact); !owned.empty() && is_of_whole_models(owned, names))
      all.try_emplace(fact->name, std::move(owned));
  }
  return all;
}

// The digests of an optimizer's tensors as those of the models that own them.
std::vector<Digests> by_model(const Digests& digests, const Owned& owned) {
  std::map<std::string, std::pair<TensorList, Digests>> parts;
  for (size_t tensor = 0; tensor < owned.size(); ++tensor) {
    const auto& [model, name] = owned[tensor];
    auto& [list, part] = parts[model];
    list.of = model;
    list.role = digests.list->role;
    list.tensors.push_back(digests.list->tensors[tensor]);
    list.tensors.back().name = name;
    part.values.push_back(digests.values[tensor]);
    if (!digests.elements.empty()) part.elements.push_back(digests.elements[tensor]);
  }
  std::vector<Digests> all;
  for (auto& [model, is] : parts) {
    is.second.list = std::make_shared<const TensorList>(std::move(is.first));
    all.push_back(std::move(is.second));
  }
  return all;
}

// The models whose names the rank's tensors have now.
std::set<std::string> rename(Rank& rank, const std::map<std::string, Owned>& owners) {
  std::set<std::string> models;
  std::vector<Record> records;
  for (auto& record : rank.records) {
    const auto* digests = std::get_if<Digests>(&record.what);
    const auto found = digests ? owners.find(digests->list->of) : owners.end();
    const bool is_renamed = found != owners.end() && digests->list->role != role::kState &&
                            digests->list->tensors.size() == found->second.size();
    if (!is_renamed) {
      records.push_back(std::move(record));
      continue;
    }
    for (auto& part : by_model(*digests, found->second)) {
      models.insert(part.list->of);
      records.push_back({record.at, std::move(part)});
    }
  }
  rank.records = std::move(records);
  return models;
}

}  // namespace

std::optional<OneRenamed> with_names_of_ranks(const OneProcess& one, const RecordedRun& run) {
  const auto owners = owned_by_optimizer(run.ranks.front());
  if (owners.empty()) return {};
  OneRenamed renamed{.one = one, .models = {}};
  renamed.models = rename(renamed.one.run.ranks.front(), owners);
  for (auto& moved : renamed.one.moved) rename(moved.ranks.front(), owners);
  if (renamed.models.empty()) return {};
  return renamed;
}

}  // namespace lockstep::recorded
