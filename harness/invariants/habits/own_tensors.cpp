#include "harness/invariants/habits/own_tensors.h"

#include "harness/base/text.h"
#include "harness/invariants/rows.h"
#include "harness/invariants/unwrapped.h"

#include <algorithm>
#include <map>
#include <set>

namespace lockstep::recorded {

namespace {

using Names = std::map<std::string, std::set<std::string>>;  // of tensors, by optimizer

bool exchanges_by_all_to_all(const Rank& rank) {
  std::set<int> steps;
  for (const auto& event : rank.history.events)
    if (const auto* is = std::get_if<Collective>(&event.what); is && is->op.starts_with("alltoall"))
      steps.insert(event.at.step);
  return steps.size() > 1;
}

// The tensors without a wrapper with which the ranks began unlike.
Names unlike_at_first(const RecordedRun& run) {
  Names names;
  for (const auto& row : rows_of(run, role::kParameters)) {
    if (!is_optimizer(row.of) || row.at.phase != phase::kConstruction || !row.is_whole()) continue;
    const auto& first = *row.by_rank.front();
    for (size_t tensor = 0; tensor < first.values.size(); ++tensor)
      if (std::any_of(row.by_rank.begin(), row.by_rank.end(), [&](const Digests* is) {
            return tensor >= is->values.size() ||
                   is->values[tensor].bits != first.values[tensor].bits;
          }))
        names[row.of].insert(first.list->tensors[tensor].name);
  }
  return names;
}

// Leaves those of whose gradients every update took the same on all ranks, since something averages
// them: the ranks should have begun alike.
void leave_averaged(Names& names, const RecordedRun& run) {
  std::map<std::pair<std::string, std::string>, bool> averaged;  // so far
  for (const auto& row : rows_of(run, role::kGradients)) {
    const auto found = names.find(row.of);
    if (found == names.end() || !row.is_whole()) continue;
    const auto& first = *row.by_rank.front();
    for (size_t tensor = 0; tensor < first.values.size(); ++tensor) {
      const bool is_same =
          std::all_of(row.by_rank.begin(), row.by_rank.end(), [&](const Digests* is) {
            return tensor < is->values.size() &&
                   is->values[tensor].bits == first.values[tensor].bits;
          });
      const bool is_some = first.values[tensor].norm > 0;
      if (is_same && !is_some) continue;  // a gradient of zeros may be any rank's
      const auto [known, is_new] =
          averaged.try_emplace({row.of, first.list->tensors[tensor].name}, is_same);
      known->second = known->second && is_same;
    }
  }
  for (const auto& [key, is_averaged] : averaged)
    if (is_averaged) names[key.first].erase(key.second);
  std::erase_if(names, [](const auto& each) { return each.second.empty(); });
}

// The tensors that each rank's optimizer updates beside a model, and that every graph has between
// what a function of the program gathered and what one reduced: each rank has its part of a layer.
Names divided_layers(const RecordedRun& run) {
  std::map<std::string, std::vector<std::set<std::string>>> by_rank;
  for (size_t rank = 0; rank < run.ranks.size(); ++rank)
    for (const auto& record : run.ranks[rank].records) {
      const auto* fact = optimizer_in(record);
      if (!fact) continue;
      auto& of_rank = by_rank[fact->name];
      of_rank.resize(run.ranks.size());
      const auto names = fact->texts("between");  // the last update knows most graphs
      of_rank[rank] = {names.begin(), names.end()};
    }
  Names names;
  for (const auto& [of, of_ranks] : by_rank) {
    const auto& first = of_ranks.front();
    if (!first.empty() &&
        std::all_of(of_ranks.begin(), of_ranks.end(), [&](const auto& is) { return is == first; }))
      names[of] = first;
  }
  return names;
}

// The digests of the other tensors of the list. A state is named after its tensor, with its key.
Digests without(const Digests& digests, const std::set<std::string>& names) {
  TensorList list{.of = digests.list->of, .role = digests.list->role, .tensors = {}};
  Digests rest;
  for (size_t tensor = 0; tensor < digests.values.size(); ++tensor) {
    const auto& entry = digests.list->tensors[tensor];
    const auto of =
        list.role == role::kState ? entry.name.substr(0, entry.name.rfind(' ')) : entry.name;
    if (names.contains(of)) continue;
    list.tensors.push_back(entry);
    rest.values.push_back(digests.values[tensor]);
    if (!digests.elements.empty()) rest.elements.push_back(digests.elements[tensor]);
  }
  rest.list = std::make_shared<const TensorList>(std::move(list));
  return rest;
}

// True if the record is of gradients that nothing is to average: of these tensors alone, once they
// are left out of it.
bool is_of_own_gradients(Record& record, const Names& own) {
  auto* fact = std::get_if<Fact>(&record.what);
  if (!fact || (fact->name != fact::kOwnGradients && fact->name != fact::kAveragedGradients))
    return false;
  const auto found = own.find(fact->text("of"));
  const auto tensors = fact->values.find("tensors");
  if (found == own.end() || tensors == fact->values.end() || !tensors->is_object()) return false;
  for (const auto& name : found->second) tensors->erase(name);
  return tensors->empty();
}

void leave_out(Rank& rank, const Names& own) {
  std::erase_if(rank.records, [&](Record& record) { return is_of_own_gradients(record, own); });
  for (auto& record : rank.records)
    if (auto* digests = std::get_if<Digests>(&record.what))
      if (const auto found = own.find(digests->list->of); found != own.end())
        *digests = without(*digests, found->second);
  std::erase_if(rank.records, [&](const Record& record) {
    const auto* digests = std::get_if<Digests>(&record.what);
    return digests && own.contains(digests->list->of) && digests->values.empty();
  });
}

Finding remark_on(const std::string& of, const std::set<std::string>& tensors, bool are_layers) {
  std::vector<std::string> names;
  for (const auto& name : tensors) names.push_back(one_line(name));
  const auto what =
      are_layers ? of + " updates tensors of which each rank has its own, " + listed(names) +
                       ": they meet what the program gathers from all ranks, and it reduces what "
                       "comes of them, as where each rank has a part of the classes"
                 : of + " updates tensors with which each rank began on its own, " + listed(names) +
                       ", and the ranks exchange what is for them by all-to-all, as with experts "
                       "or parts of a table";
  return {"", "own_tensors", of, what + ": not compared"};
}

}  // namespace

std::optional<View> without_own_tensors(const RecordedRun& run) {
  if (!std::all_of(run.ranks.begin(), run.ranks.end(), wraps_a_model)) return {};
  auto own = divided_layers(run);
  const bool are_layers = !own.empty();
  if (!are_layers && !std::all_of(run.ranks.begin(), run.ranks.end(), exchanges_by_all_to_all))
    return {};
  if (!are_layers) own = unlike_at_first(run);
  leave_averaged(own, run);
  if (own.empty()) return {};
  View rest{run};
  for (auto& rank : rest.run.ranks) leave_out(rank, own);
  for (const auto& [of, names] : own) rest.remarks.push_back(remark_on(of, names, are_layers));
  return rest;
}

}  // namespace lockstep::recorded
