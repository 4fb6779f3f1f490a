#include "harness/invariants/at_wrapping.h"

#include "harness/base/text.h"
#include "harness/invariants/habits/not_data_parallel.h"
#include "harness/invariants/habits/updates_by_hand.h"
#include "harness/invariants/local_updates.h"
#include "harness/verdict/trace.h"

#include <algorithm>
#include <map>
#include <set>

namespace lockstep::recorded {

namespace {

// The parameters that a model had as it was wrapped, and those that were frozen then.
struct AtWrapping {
  std::set<std::string> trained, frozen;
};
std::map<std::string, AtWrapping> models_at_wrapping(const Rank& rank) {
  std::map<std::string, AtWrapping> models;
  for (const auto& record : rank.records) {
    if (const auto* model = model_in(record)) {
      const auto frozen = model->values.find("frozen");
      if (frozen != model->values.end() && frozen->is_array())
        for (const auto& name : *frozen)
          if (name.is_string())
            models[model->name].frozen.insert(one_line(name.get<std::string>()));
    }
    const auto* digests = std::get_if<Digests>(&record.what);
    const bool is_wrapping = digests && digests->list->role == role::kParameters &&
                             record.at.phase == phase::kConstruction &&
                             models[digests->list->of].trained.empty();
    if (is_wrapping)
      for (const auto& tensor : digests->list->tensors)
        models[digests->list->of].trained.insert(tensor.name);
  }
  return models;
}

// The names of the parameters that wrappers ignore as the program wants.
std::vector<std::string> ignored_in(const Rank& rank) {
  std::vector<std::string> names;
  for (const auto& record : rank.records) {
    if (const auto* model = model_in(record))
      for (const auto& name : model->texts("ignored")) names.push_back(one_line(name));
  }
  return names;
}

Details said_of_ignored(const std::vector<std::string>& names) {
  if (names.empty()) return {};
  return {Cause{"the program told DistributedDataParallel to ignore " + listed(names) +
                ", so that it averages nothing of them, and does not send them as it is made"}};
}

Details said_of_frozen(const RecordedRun& run, const Row& row) {
  auto ignored = ignored_in(run.ranks.front());
  std::erase_if(ignored, [&](const std::string& name) {
    const auto& tensors = row.by_rank.front()->list->tensors;
    return std::none_of(tensors.begin(), tensors.end(),
                        [&](const auto& tensor) { return tensor.name == name; });
  });
  return said_of_ignored(ignored);
}

}  // namespace

std::optional<Finding> parts_that_the_wrapper_ignores(const RecordedRun& run, const Row& row) {
  if (!row.is_whole() || !computes_through_collectives(run)) return {};
  const auto ignored = ignored_in(run.ranks.front());
  for (const auto& name : unlike_the_first(row))
    if (std::ranges::find(ignored, name) == ignored.end()) return {};
  return Finding{"", "own_tensors", place_of(row),
                 "frozen parameters that the wrapper ignores differ between the ranks, whose "
                 "forwards exchange what they compute, as with parts of a table: not compared"};
}

Details ignored_by_the_wrapper(const Rank& rank) {
  return said_of_ignored(ignored_in(rank));
}

Details replaced_after_wrapping(const Rank& rank, const std::string& model) {
  std::set<std::string> names;
  for (const auto& record : rank.records) {
    const auto* fact = fact_in(record, fact::kReplaced);
    if (!fact || (!model.empty() && fact->text("model") != model)) continue;
    names.clear();
    for (const auto& name : fact->texts("tensors")) names.insert(one_line(name));
  }
  if (names.empty()) return {};
  return {
      Cause{listed(std::vector<std::string>(names.begin(), names.end())) +
            " are other tensors than those that DistributedDataParallel was made with, which it "
            "still waits for: replace layers, tie or convert them first, or wrap again"}};
}

Details unknown_to_the_wrapper(const RecordedRun& run, const Row& row) {
  if (!row.by_rank.front()) return {};
  if (row.by_rank.front()->list->role == role::kFrozen) return said_of_frozen(run, row);
  if (row.of == kNoOptimizer)
    return {
        Cause{"the program changes parameters itself that no wrapper and no optimizer has, and "
              "nothing makes what it changes them by the same: average their gradients, or "
              "wrap the module that has them"}};
  if (auto replaced = replaced_after_wrapping(run.ranks.front(), row.of); !replaced.empty())
    return replaced;
  auto models = models_at_wrapping(run.ranks.front());
  const auto& at_wrapping = models[row.of];
  if (at_wrapping.trained.empty()) return {};
  std::vector<std::string> unfrozen, added;
  for (const auto& tensor : row.by_rank.front()->list->tensors)
    if (at_wrapping.frozen.contains(tensor.name))
      unfrozen.push_back(tensor.name);
    else if (!at_wrapping.trained.contains(tensor.name))
      added.push_back(tensor.name);
  Details causes;
  if (!unfrozen.empty())
    causes.push_back(Cause{
        listed(unfrozen) +
        " required no gradient as the model was wrapped, so that DistributedDataParallel does "
        "not average theirs: unfreeze first, or wrap again"});
  if (!added.empty())
    causes.push_back(
        Cause{"DistributedDataParallel did not have " + listed(added) +
              " as the model was wrapped, or they required no gradient then, and does not average "
              "theirs: add them first, or wrap again"});
  return causes;
}

}  // namespace lockstep::recorded
