#include "harness/invariants/at_wrapping.h"

#include "harness/base/text.h"
#include "harness/verdict/trace.h"

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
    const bool is_wrapping = digests && digests->list->role == "parameters" &&
                             record.at.phase == "construction" &&
                             models[digests->list->of].trained.empty();
    if (is_wrapping)
      for (const auto& tensor : digests->list->tensors)
        models[digests->list->of].trained.insert(tensor.name);
  }
  return models;
}

}  // namespace

Details replaced_after_wrapping(const Rank& rank, const std::string& model) {
  std::set<std::string> names;
  for (const auto& record : rank.records) {
    const auto* fact = std::get_if<Fact>(&record.what);
    if (!fact || fact->name != "replaced" || (!model.empty() && fact->text("model") != model))
      continue;
    names.clear();
    const auto found = fact->values.find("tensors");
    if (found != fact->values.end() && found->is_array())
      for (const auto& name : *found)
        if (name.is_string()) names.insert(one_line(name.get<std::string>()));
  }
  if (names.empty()) return {};
  return {
      Cause{joined({names.begin(), names.end()}, ", ") +
            " are other tensors than those that DistributedDataParallel was made with, which it "
            "still waits for: replace layers, tie or convert them first, or wrap again"}};
}

Details unknown_to_the_wrapper(const RecordedRun& run, const Row& row) {
  if (auto replaced = replaced_after_wrapping(run.ranks.front(), row.of); !replaced.empty())
    return replaced;
  auto models = models_at_wrapping(run.ranks.front());
  const auto& at_wrapping = models[row.of];
  if (at_wrapping.trained.empty() || !row.by_rank.front()) return {};
  std::vector<std::string> unfrozen, added;
  for (const auto& tensor : row.by_rank.front()->list->tensors)
    if (at_wrapping.frozen.contains(tensor.name))
      unfrozen.push_back(tensor.name);
    else if (!at_wrapping.trained.contains(tensor.name))
      added.push_back(tensor.name);
  Details causes;
  if (!unfrozen.empty())
    causes.push_back(Cause{
        joined(unfrozen, ", ") +
        " required no gradient as the model was wrapped, so that DistributedDataParallel does "
        "not average theirs: unfreeze first, or wrap again"});
  if (!added.empty())
    causes.push_back(
        Cause{"DistributedDataParallel did not have " + joined(added, ", ") +
              " as the model was wrapped, or they required no gradient then, and does not average "
              "theirs: add them first, or wrap again"});
  return causes;
}

}  // namespace lockstep::recorded
