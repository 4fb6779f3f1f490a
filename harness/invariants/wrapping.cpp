// Judges whether what is trained is averaged over the ranks: by a wrapper, or by collectives of the
// program.
#include "harness/base/text.h"
#include "harness/invariants/local_updates.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace lockstep::recorded {

namespace {

// True if all of a model's backwards since its last update stayed local, and it is wrapped, so that
// one was to be averaged. A recorder that knows of no_sync sees wrappers alone.
bool none_was_averaged(const std::set<std::string>& kinds, bool is_wrapped) {
  return kinds == std::set<std::string>{"no_sync"} ||
         (kinds == std::set<std::string>{"local"} && is_wrapped);
}

struct Found {
  Finding finding;
  Moment at;
};

// The rank's first update from gradients that no backward since the update before has averaged.
std::optional<Found> update_from_own_gradients(const Rank& rank,
                                               const std::map<std::string, Moment>& averaged) {
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
      if (found == kinds.end() || averaged.contains(model)) continue;
      const auto place = "step " + std::to_string(record.at.step);
      if (none_was_averaged(found->second, wrapped.contains(model)))
        return Found{{"", "update_not_averaged", place + ", update",
                      "rank " + std::to_string(rank.number) + ": the update of " + place +
                          " took gradients of " + model +
                          " that no backward had averaged: its forwards ran the module itself, "
                          "not its DistributedDataParallel, or all of them within no_sync"},
                     record.at};
      kinds.erase(found);
    }
  }
  return {};
}

// A backward whose gradients DistributedDataParallel does not average, by its kind.
std::optional<Finding> past_the_wrapper(const Rank& rank, const Fact& backward, const Moment& at) {
  const auto kind = backward.text("kind"), model = backward.text("model");
  const auto place = "step " + std::to_string(at.step);
  const auto who = "rank " + std::to_string(rank.number) + ": ";
  const std::string own = ": this rank's gradients stay its own";
  if (kind == "bare" || kind == "outside")
    return Finding{"", "bare_forward", place + ", backward",
                   who + "the backward of " + place + " reached parameters of " + model +
                       " through no forward of its wrapper, DistributedDataParallel: the module "
                       "itself ran, or a method or a part of it" +
                       own};
  if (kind == "again")
    return Finding{"", "backward_again", place + ", backward",
                   who + "a further backward of " + place + " went through the same forward of " +
                       model + ", which DistributedDataParallel averages once" + own};
  return {};
}

// A backward of a model: the moment, and how many it had there before.
using BackwardKey = std::tuple<Moment, std::string, int>;

// Backwards after which all ranks hold the same gradients: a penalty of the weights alone, say,
// which needs no average.
std::set<BackwardKey> backwards_that_agree(const RecordedRun& run) {
  std::set<BackwardKey> alike;
  for (const auto& row : rows_of(run, "gradients"))
    if (row.is_whole() && !difference_in(row, "")) alike.emplace(row.at, row.of, row.repeat);
  return alike;
}

// The ranks' modes in the same backward of a model: one in evaluation mode drops nothing and keeps
// its running averages.
std::optional<Found> other_mode(const RecordedRun& run) {
  struct Modes {
    Moment at;
    std::vector<std::string> by_rank;
  };
  std::map<std::pair<std::string, size_t>, Modes> all;  // by model and number of its backward
  for (size_t rank = 0; rank < run.ranks.size(); ++rank) {
    std::map<std::string, size_t> counts;
    for (const auto& record : run.ranks[rank].records) {
      const auto* fact = std::get_if<Fact>(&record.what);
      if (!fact || fact->name != "backward" || !fact->values.contains("training")) continue;
      auto& modes = all[{fact->text("model"), counts[fact->text("model")]++}];
      modes.at = record.at;
      modes.by_rank.resize(run.ranks.size());
      modes.by_rank[rank] = fact->truth("training") ? "training mode" : "evaluation mode";
    }
  }
  const Modes* first = nullptr;
  std::string model;
  for (const auto& [key, modes] : all)
    if (std::none_of(modes.by_rank.begin(), modes.by_rank.end(),
                     [](const auto& mode) { return mode.empty(); }) &&
        !all_alike(modes.by_rank) && (!first || comes_before(modes.at, first->at))) {
      first = &modes;
      model = key.first;
    }
  if (!first) return {};
  const auto place = "step " + std::to_string(first->at.step) + ", forward";
  return Found{{"", "other_mode", place,
                "the mode of " + model + " in " + place + ": " + values_text(first->by_rank)},
               first->at};
}

// The elements of all tensors that the rank had.
int64_t elements_in(const Digests& digests) {
  int64_t count = 0;
  for (size_t number = 0; number < digests.values.size(); ++number) {
    const auto& tensor = digests.list->tensors[number];
    const auto bytes = tensor_bytes(tensor.dtype, tensor.shape);
    if (bytes > 0 && !digests.values[number].is_missing())
      count += bytes / traits_of(tensor.dtype).bytes;
  }
  return count;
}

// The tensors that a rank trains without a wrapper: those of an optimizer, or of a model that is
// watched.
struct Unwrapped {
  int64_t elements = 0;
  int64_t gradients = 0;  // elements of those of the update that took fewest
};
std::map<std::string, Unwrapped> unwrapped_in(const Rank& rank) {
  std::map<std::string, Unwrapped> all;
  std::set<std::string> watched;
  for (const auto& record : rank.records) {
    if (const auto* fact = std::get_if<Fact>(&record.what);
        fact && fact->name.starts_with("model ") && fact->text("wrapper") == "watched")
      watched.insert(fact->name);
    const auto* digests = std::get_if<Digests>(&record.what);
    if (!digests) continue;
    const auto& list = *digests->list;
    if (!list.of.starts_with("optimizer ") && !watched.contains(list.of)) continue;
    const auto elements = elements_in(*digests);
    if (list.role == "parameters") all[list.of].elements = elements;
    auto& least = all[list.of].gradients;
    if (const bool is_taken = list.role == "gradients" || list.role == "taken";
        is_taken && elements > 0)
      least = least == 0 ? elements : std::min(least, elements);
  }
  return all;
}

bool can_average(const Collective& is) {
  const bool only_copies =
      is.op.starts_with("ddp_") || is.op == "broadcast" || is.op == "scatter" || is.op == "barrier";
  return !only_copies && (is.dtype.find("float") != std::string::npos || is.dtype.empty());
}

// The most elements that the program's own collectives averaged in one step, so far as is known.
int64_t elements_averaged(const Rank& rank) {
  std::map<int, int64_t> sent;  // by step
  int64_t most = 0;
  for (const auto& event : rank.history.events)
    if (const auto* is = std::get_if<Collective>(&event.what); is && can_average(*is))
      most = std::max(most, sent[event.at.step] += is->elements);
  return most;
}

// True if ranks share a tensor of the gradients of every update and differ in others: something
// averaged that one.
bool is_averaged_in_part(const RecordedRun& run, const std::string& of) {
  std::map<std::string, size_t> shared;  // in how many updates, by tensor
  size_t updates = 0;
  for (const char* role : {"gradients", "taken"})
    for (const auto& row : rows_of(run, role)) {
      if (row.of != of || !row.is_whole() || !difference_in(row, "")) continue;
      ++updates;
      const auto& first = *row.by_rank.front();
      for (size_t tensor = 0; tensor < first.values.size(); ++tensor)
        if (first.values[tensor].norm > 0 &&
            std::all_of(row.by_rank.begin(), row.by_rank.end(), [&](const Digests* is) {
              return tensor < is->values.size() &&
                     is->values[tensor].bits == first.values[tensor].bits;
            }))
          ++shared[first.list->tensors[tensor].name];
    }
  return std::any_of(shared.begin(), shared.end(),
                     [&](const auto& tensor) { return tensor.second == updates; });
}

// True if it sends its parameters at each update, so that equal ones say nothing.
bool sends_parameters(const Rank& rank, int64_t elements) {
  std::map<int, int64_t> sent;  // by step
  for (const auto& event : rank.history.events)
    if (const auto* is = std::get_if<Collective>(&event.what); is && is->op == "broadcast")
      sent[event.at.step] += is->elements;
  return std::count_if(sent.begin(), sent.end(),
                       [&](const auto& step) { return step.second >= elements; }) > 1;
}

// True if ranks that computed different gradients still made the same updates: something averaged
// them that no recorder sees.
bool is_averaged_unseen(const RecordedRun& run, const std::string& of) {
  bool any_row = false, any_difference = false;
  for (const auto& row : rows_of(run, "parameters"))
    if (row.of == of && row.at.phase == "update") {
      if (!row.is_whole() || difference_in(row, "")) return false;
      any_row = true;
    }
  for (const char* role : {"gradients", "taken"})
    for (const auto& row : rows_of(run, role))
      any_difference = any_difference || (row.of == of && difference_in(row, ""));
  std::map<size_t, std::vector<std::string>> losses;
  for (const auto& rank : run.ranks) {
    size_t number = 0;
    for (const auto& record : rank.records)
      if (const auto* fact = std::get_if<Fact>(&record.what);
          fact && fact->name == "backward" && fact->values.contains("loss"))
        losses[number++].push_back(fact->values["loss"].dump());
  }
  for (const auto& [number, texts] : losses) any_difference = any_difference || !all_alike(texts);
  return any_row && any_difference;
}

std::optional<Finding> never_averaged(const RecordedRun& run) {
  const auto& rank = run.ranks.front();
  bool any_wrapped = false;
  for (const auto& record : rank.records)
    if (const auto* fact = std::get_if<Fact>(&record.what);
        fact && fact->name.starts_with("model ") && fact->text("wrapper") != "watched")
      any_wrapped = true;
  for (const auto& [of, is] : unwrapped_in(rank)) {
    const bool is_seen =
        2 * elements_averaged(rank) >= is.gradients || is_averaged_in_part(run, of);
    if (is.gradients == 0 || is_seen) continue;
    if (!sends_parameters(rank, is.elements) && is_averaged_unseen(run, of)) continue;
    return Finding{
        "", "nobody_averaged", of,
        any_wrapped ? of + " updates " + with_commas(is.elements) +
                          " elements of no model that is wrapped in DistributedDataParallel, and "
                          "nothing else averaged their gradients"
                    : "no model was wrapped in DistributedDataParallel, and nothing else averaged "
                      "gradients: each rank trains " +
                          of + "'s parameters alone"};
  }
  return {};
}

}  // namespace

Judgement forwards_run_through_the_wrapper(const RecordedRun& run) {
  if (run.ranks.size() == 1) return {.why_not = "one rank alone"};
  size_t backwards = 0;
  Judgement judgement;
  const auto found = [&](Finding finding, const Moment& at) {
    if (!judgement.findings.empty() && !comes_before(at, *judgement.at)) return;
    judgement.findings = {std::move(finding)};
    judgement.at = at;
  };
  const auto alike = backwards_that_agree(run);
  for (const auto& rank : run.ranks) {
    std::map<std::pair<Moment, std::string>, int> count;
    for (const auto& record : rank.records) {
      const auto* fact = std::get_if<Fact>(&record.what);
      if (!fact || fact->name != "backward") continue;
      const auto kind = fact->text("kind");
      backwards += kind != "local" && kind != "by hand" ? 1 : 0;
      const auto model = fact->text("model");
      const int number = count[{record.at, model}]++;
      if (alike.contains({record.at, model, number})) continue;
      if (auto finding = past_the_wrapper(rank, *fact, record.at))
        found(std::move(*finding), record.at);
    }
  }
  const auto averaged = averaged_between_updates(run);
  for (const auto& rank : run.ranks)
    if (auto is = update_from_own_gradients(rank, averaged); is && judgement.findings.empty())
      found(std::move(is->finding), is->at);
  if (auto is = other_mode(run)) found(std::move(is->finding), is->at);
  if (auto finding = never_averaged(run); finding && judgement.findings.empty())
    judgement.findings.push_back(std::move(*finding));
  if (backwards == 0 && judgement.findings.empty())
    return {.why_not = "no rank recorded how the forward of a backward ran"};
  judgement.compared = counted(backwards, "backward");
  return judgement;
}

}  // namespace lockstep::recorded
