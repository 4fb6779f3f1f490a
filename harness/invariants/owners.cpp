// Judges whether each parameter that is trained has one optimizer.
#include "harness/base/text.h"
#include "harness/invariants/optimizers/settings.h"
#include "harness/invariants/rows.h"

#include <algorithm>
#include <map>
#include <set>

namespace lockstep::recorded {

namespace {

using Name = std::pair<std::string, std::string>;  // model, parameter

// The numbers of an optimizer's first and last record.
struct Updates {
  size_t first = 0, last = 0;
};

std::string text_of(const Name& name) {
  return name.first + " " + name.second;
}

// The parameters that the ranks' optimizers hold, over the whole run.
struct Ownership {
  std::set<Name> owned_by_any;
  // By rank, since ranks that step other optimizers number them otherwise.
  std::vector<std::map<Name, std::set<std::string>>> owners;
  std::vector<std::map<std::string, Updates>> updates;  // by rank and optimizer
  std::set<Name> trained;                               // parameters of all models
  std::set<std::string> owned;    // models of which some optimizer has a parameter
  std::set<std::string> foreign;  // optimizers that hold tensors of no model and none of a model
  std::map<std::string, size_t> strangers;  // by optimizer: tensors of no model, where recorded
  std::set<std::string> with_gradients;     // optimizers of which some of these get a gradient
};

Ownership ownership_in(const RecordedRun& run) {
  Ownership is;
  for (const auto& rank : run.ranks) {
    auto& updates = is.updates.emplace_back();
    auto& owners = is.owners.emplace_back();
    for (size_t number = 0; number < rank.records.size(); ++number) {
      const auto& record = rank.records[number];
      if (const auto* digests = std::get_if<Digests>(&record.what)) {
        const auto& list = *digests->list;
        const bool is_of_optimizer = is_optimizer(list.of);
        if (list.role == role::kParameters && is_of_optimizer)
          is.strangers[list.of] = std::max(is.strangers[list.of], list.tensors.size());
        if (list.role == role::kParameters && !is_of_optimizer)
          for (const auto& tensor : list.tensors) is.trained.emplace(list.of, tensor.name);
        if (list.role == role::kGradients && is_of_optimizer &&
            std::any_of(digests->values.begin(), digests->values.end(),
                        [](const Digest& digest) { return !digest.is_missing(); }))
          is.with_gradients.insert(list.of);
      }
      const auto* fact = optimizer_in(record);
      if (!fact) continue;
      const auto owned = owned_in(*fact);
      updates.try_emplace(fact->name, Updates{number, number}).first->second.last = number;
      if (owned.empty() && fact->whole("foreign").value_or(0) > 0) is.foreign.insert(fact->name);
      for (const auto& name : owned) {
        owners[name].insert(fact->name);
        is.owned_by_any.insert(name);
        is.owned.insert(name.first);
      }
    }
  }
  return is;
}

// True if one of them makes updates between those of another one: the last does not just replace
// the first for what follows, as a second stage of a training does.
bool take_turns(const std::set<std::string>& optimizers,
                const std::map<std::string, Updates>& updates) {
  std::vector<Updates> all;
  for (const auto& name : optimizers)
    if (const auto found = updates.find(name); found != updates.end()) all.push_back(found->second);
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (size_t next = 1; next < all.size(); ++next)
    if (all[next].first < all[next - 1].last) return true;
  return false;
}

// A parameter that several optimizers of a rank update.
std::optional<Finding> has_two_owners(const Ownership& is) {
  for (size_t rank = 0; rank < is.owners.size(); ++rank)
    for (const auto& [parameter, names] : is.owners[rank])
      if (names.size() > 1 && take_turns(names, is.updates[rank]))
        return Finding{"", "two_optimizers", text_of(parameter),
                       text_of(parameter) + " belongs to " +
                           joined(std::vector<std::string>(names.begin(), names.end()), " and ") +
                           ": each updates it"};
  return {};
}

// A parameter that had a gradient when an optimizer with others of its model made an update.
struct Lacking {
  Name name;
  Moment at;
};
std::optional<Lacking> first_lacking(const Rank& rank, const Ownership& is) {
  std::map<std::string, const Digests*> gradients;  // by model, since its last update
  for (const auto& record : rank.records) {
    if (const auto* digests = digests_in(record, role::kGradients))
      gradients[digests->list->of] = digests;
    const auto* fact = optimizer_in(record);
    if (!fact) continue;
    std::set<std::string> models;
    for (const auto& [model, name] : owned_in(*fact)) models.insert(model);
    for (const auto& name : owned_in(*fact))  // several of its parameters in one tensor
      if (!is.trained.contains(name)) models.erase(name.first);
    for (const auto& model : models) {
      const auto* of = std::exchange(gradients[model], nullptr);
      for (size_t tensor = 0; of && tensor < of->values.size(); ++tensor)
        if (const Name name{model, of->list->tensors[tensor].name};
            !of->values[tensor].is_missing() && !is.owned_by_any.contains(name))
          return Lacking{name, record.at};
    }
  }
  return {};
}

constexpr char kNoModel[] = "no model was wrapped or watched";

constexpr char kMadeBefore[] =
    "was it made before the model, or a layer of it, was replaced, moved or converted?";

// An optimizer with tensors that no model has and no backward reaches.
std::optional<Finding> holds_other_tensors(const Ownership& is) {
  for (const auto& [optimizer, count] : is.strangers)
    if (count > 0 && !is.with_gradients.contains(optimizer))
      return Finding{"", "steps_other_tensors", optimizer,
                     optimizer + " holds " + counted(count, "tensor") +
                         " of no model that never get" + (count == 1 ? "s" : "") +
                         " a gradient: " + kMadeBefore};
  if (is.foreign.empty()) return {};
  for (const auto& name : is.trained)
    if (!is.owned_by_any.contains(name) && !is.strangers.contains(*is.foreign.begin()))
      return Finding{"", "steps_other_tensors", text_of(name),
                     text_of(name) + " belongs to no optimizer, and " + *is.foreign.begin() +
                         " holds tensors of no wrapped model: " + kMadeBefore};
  return {};
}

}  // namespace

Judgement optimizers_own_parameters_once(const RecordedRun& run) {
  const auto is = ownership_in(run);
  if (is.trained.empty() && is.strangers.empty()) return {.why_not = kNoModel};
  Judgement judgement{.compared = counted(is.trained.size(), "parameter")};
  if (auto two = has_two_owners(is)) {
    judgement.findings.push_back(std::move(*two));
    return judgement;
  }
  auto others = holds_other_tensors(is);
  for (const auto& rank : run.ranks)
    if (const auto lacking = first_lacking(rank, is)) {
      auto text = "rank " + std::to_string(rank.number) + ": " + text_of(lacking->name) +
                  " gets gradients and belongs to no optimizer, which has others of " +
                  lacking->name.first;
      if (others) text += "; " + others->diagnosis;
      judgement.add(
          Found{{"", others ? "steps_other_tensors" : "in_no_optimizer",
                 "step " + std::to_string(lacking->at.step) + ", " + text_of(lacking->name), text},
                lacking->at});
      return judgement;
    }
  if (others) judgement.findings.push_back(std::move(*others));
  if (is.trained.empty() && judgement.findings.empty()) return {.why_not = kNoModel};
  return judgement;
}

}  // namespace lockstep::recorded
