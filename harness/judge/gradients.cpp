// Whether gradients are averaged where they should be, and only there.
#include "harness/core/text.h"
#include "harness/core/trace.h"
#include "harness/judge/rows.h"

#include <algorithm>
#include <map>
#include <set>

namespace lockstep::recorded {

namespace {

// How the backward before a record of gradients was to leave them: "synchronised", "no_sync",
// "bare"; or "local", one of the latter two.
using Kinds = std::map<const Digests*, std::string>;

Kinds kinds_of(const RecordedRun& run) {
  Kinds kinds;
  for (const auto& rank : run.ranks) {
    std::map<std::string, std::string> last;  // by model
    for (const auto& record : rank.records) {
      const auto* fact = std::get_if<Fact>(&record.what);
      if (fact && fact->name == "backward") last[fact->text("model")] = fact->text("kind");
      const auto* digests = std::get_if<Digests>(&record.what);
      if (digests && digests->list->role == "gradients") kinds[digests] = last[digests->list->of];
    }
  }
  return kinds;
}

// The kinds of a row's ranks; "" where a rank has no record.
std::vector<std::string> kinds_in(const Row& row, const Kinds& kinds) {
  std::vector<std::string> out;
  for (const auto* digests : row.by_rank) out.push_back(digests ? kinds.at(digests) : "");
  return out;
}

bool are_all(const std::vector<std::string>& texts, const std::string& wanted) {
  return std::all_of(texts.begin(), texts.end(), [&](const auto& text) { return text == wanted; });
}

bool stayed_local(const std::vector<std::string>& kinds) {
  return are_all(kinds, "no_sync") || are_all(kinds, "local");
}

// True if all ranks computed the same gradients, and not only zeros.
bool computed_the_same(const Row& row) {
  bool any = false;
  const auto& first = *row.by_rank.front();
  for (const auto* digests : row.by_rank)
    if (digests->values.size() != first.values.size()) return false;
  for (size_t tensor = 0; tensor < first.values.size(); ++tensor)
    for (const auto* digests : row.by_rank) {
      if (digests->values[tensor].bits != first.values[tensor].bits) return false;
      any = any || digests->values[tensor].norm > 0;
    }
  return any;
}

// True if all of a model's backwards since its last update stayed local, and it is wrapped, so that
// one was to be averaged. A recorder that knows of no_sync sees wrappers alone.
bool none_was_averaged(const std::set<std::string>& kinds, bool is_wrapped) {
  return kinds == std::set<std::string>{"no_sync"} ||
         (kinds == std::set<std::string>{"local"} && is_wrapped);
}

// The rank's first update from gradients that no backward since the update before has averaged.
std::optional<Finding> update_from_own_gradients(const Rank& rank) {
  std::set<std::string> wrapped;
  std::map<std::string, std::set<std::string>> kinds;  // of backwards since its last update
  for (const auto& record : rank.records) {
    const auto* fact = std::get_if<Fact>(&record.what);
    if (!fact) continue;
    if (fact->name.starts_with("model ") && fact->truth("wrapped")) wrapped.insert(fact->name);
    if (fact->name == "backward") kinds[fact->text("model")].insert(fact->text("kind"));
    if (!fact->name.starts_with("optimizer ")) continue;
    for (const auto& [model, name] : owned_in(*fact)) {
      const auto found = kinds.find(model);
      if (found == kinds.end()) continue;
      const auto place = "step " + std::to_string(record.at.step);
      if (none_was_averaged(found->second, wrapped.contains(model)))
        return Finding{"", "update_not_averaged", place,
                       "rank " + std::to_string(rank.number) + ": the update of " + place +
                           " took gradients of " + model +
                           " that no backward had averaged: its forwards ran the module itself, "
                           "not its DistributedDataParallel, or all of them within no_sync"};
      kinds.erase(found);
    }
  }
  return {};
}

}  // namespace

Judgement forwards_run_through_the_wrapper(const RecordedRun& run) {
  if (run.ranks.size() == 1) return {.why_not = "one rank alone"};
  size_t backwards = 0;
  Judgement judgement;
  for (const auto& rank : run.ranks)
    for (const auto& record : rank.records) {
      const auto* fact = std::get_if<Fact>(&record.what);
      if (!fact || fact->name != "backward" || fact->text("kind") == "local") continue;
      ++backwards;
      if (fact->text("kind") != "bare" || !judgement.findings.empty()) continue;
      judgement.findings.push_back(
          {"", "bare_forward", "step " + std::to_string(record.at.step),
           "rank " + std::to_string(rank.number) + ": the forward of step " +
               std::to_string(record.at.step) + " ran the module of " + fact->text("model") +
               " itself, not its DistributedDataParallel: this rank's gradients stay its own"});
    }
  for (const auto& rank : run.ranks)
    if (judgement.findings.empty())
      if (auto finding = update_from_own_gradients(rank))
        judgement.findings.push_back(std::move(*finding));
  if (backwards == 0 && judgement.findings.empty())
    return {.why_not = "no rank recorded how the forward of a backward ran"};
  judgement.compared = counted(backwards, "backward");
  return judgement;
}

Judgement gradients_are_the_same(const RecordedRun& run) {
  if (run.ranks.size() == 1) return {.why_not = "one rank alone"};
  const auto kinds = kinds_of(run);
  Judgement judgement;
  size_t compared = 0;
  for (const auto& row : rows_of(run, "gradients")) {
    if (!row.is_whole()) continue;
    const auto by_rank = kinds_in(row, kinds);
    if (!are_all(by_rank, by_rank.front())) {
      judgement.findings.push_back({"", "synchronised_on_some_ranks", place_of(row),
                                    "the backward of " + row.of + ": " + values_text(by_rank)});
      break;
    }
    if (by_rank.front() != "synchronised") continue;
    ++compared;
    if (auto finding = difference_in(row, "gradients of " + row.of)) {
      judgement.findings.push_back(std::move(*finding));
      break;
    }
  }
  if (judgement.findings.empty() && compared == 0)
    return {.why_not = "no backward was synchronised on all ranks"};
  judgement.compared = counted(compared, "backward");
  return judgement;
}

Judgement gradients_differ_in_no_sync(const RecordedRun& run) {
  if (run.ranks.size() == 1) return {.why_not = "one rank alone"};
  const auto kinds = kinds_of(run);
  Judgement judgement;
  size_t compared = 0;
  for (const auto& row : rows_of(run, "gradients")) {
    if (!row.is_whole() || !stayed_local(kinds_in(row, kinds))) continue;
    ++compared;
    if (!computed_the_same(row)) continue;
    judgement.findings.push_back(
        {"", "same_data", place_of(row),
         "gradients of " + row.of +
             ": all ranks computed the same ones within no_sync, so all have the same batch"});
    break;
  }
  if (compared == 0) return {.why_not = "no backward ran within no_sync"};
  judgement.compared = counted(compared, "backward");
  return judgement;
}

Judgement gradients_reach_every_parameter(const RecordedRun& run) {
  std::map<std::string, bool> reached;  // by model and parameter
  for (const auto& rank : run.ranks)
    for (const auto& record : rank.records) {
      const auto* digests = std::get_if<Digests>(&record.what);
      if (!digests || digests->list->role != "gradients") continue;
      for (size_t tensor = 0; tensor < digests->values.size(); ++tensor) {
        auto& is = reached[digests->list->of + " " + digests->list->tensors[tensor].name];
        is = is || !digests->values[tensor].is_missing();
      }
    }
  if (reached.empty()) return {.why_not = "no rank recorded a backward"};
  Judgement judgement{.compared = counted(reached.size(), "parameter")};
  std::vector<std::string> without;
  for (const auto& [name, is] : reached)
    if (!is) without.push_back(name);
  if (without.empty()) return judgement;
  std::string text = counted(without.size(), "parameter") + " of " +
                     std::to_string(reached.size()) +
                     " got no gradient on any rank in any backward, first " + without.front();
  for (const auto& name : without) text += "\n" + name;
  judgement.findings.push_back({"", "never_a_gradient", without.front(), std::move(text)});
  return judgement;
}

}  // namespace lockstep::recorded
