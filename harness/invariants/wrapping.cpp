// Judges whether the forwards of what is trained run through the wrapper that averages over the
// ranks.
#include "harness/base/text.h"
#include "harness/invariants/habits/not_data_parallel.h"
#include "harness/invariants/local_updates.h"
#include "harness/invariants/optimizers/settings.h"
#include "harness/invariants/unwrapped.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace lockstep::recorded {

namespace {

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
  for (const auto& row : rows_of(run, role::kGradients))
    if (row.is_whole() && !difference_in(row, "")) alike.emplace(row.at, row.of, row.repeat);
  return alike;
}

// The model's backwards since its last update.
struct Since {
  std::set<std::string> kinds;
  std::string last;
  bool last_agrees = false;  // after it all ranks held the same gradients
};

// True if gradients of the last of them stayed a wrapped model's rank's own. A recorder that knows
// of no_sync sees wrappers alone.
bool stayed_own(const Since& since, bool is_wrapped) {
  const bool is_local = since.last == "no_sync" || (since.last == "local" && is_wrapped);
  return is_local && (since.kinds.size() == 1 || !since.last_agrees);
}

// The updates, by model and step, that took the same gradients on all ranks: those that the program
// averaged itself, say.
std::set<std::pair<std::string, int>> updates_that_agree(const RecordedRun& run) {
  std::set<std::pair<std::string, int>> alike;
  for (const auto& row : rows_of(run, role::kTaken))
    if (row.is_whole() && !difference_in(row, "")) alike.emplace(row.of, row.at.step);
  return alike;
}

// Where the ranks agree though a backward left each its own gradients.
struct Agreement {
  std::map<std::string, Moment> averaged;         // models whose parameters are averaged later
  std::set<std::pair<std::string, int>> updates;  // that took the same gradients
  std::set<BackwardKey> backwards;                // after which gradients were the same
};

// True if an update took what a model's backward, one of the rank's records, left the rank alone.
// The program may clear it before, as where a GAN's generator learns through the discriminator, or
// average it itself; and a later backward of the wrapper averages what it adds to, which is meant
// where no update of another model lies between.
bool took_own(const Rank& rank, size_t backward, const std::string& model,
              const Agreement& agreement) {
  bool any_update = false, any_since = false;
  std::map<Moment, int> count;
  for (size_t at = 0; at < rank.records.size(); ++at) {
    const auto& record = rank.records[at];
    const auto* fact = std::get_if<Fact>(&record.what);
    if (!fact) continue;
    if (is_optimizer(fact->name)) {
      const auto owned = owned_in(*fact);
      const bool is_of_model = std::any_of(owned.begin(), owned.end(),
                                           [&](const auto& name) { return name.first == model; });
      if (is_of_model && at > backward)
        return !agreement.updates.contains({model, record.at.step}) &&
               !agreement.averaged.contains(model);
      any_since = any_since || at > backward;
      any_update = any_update || is_of_model;
    }
    if (fact->name != fact::kBackward || fact->text("model") != model) continue;
    const int number = count[record.at]++;
    if (at <= backward) continue;
    if (fact->values.contains("changed") && !fact->truth("changed")) return false;
    if (!any_since && fact->text("kind") == "synchronised" &&
        agreement.backwards.contains({record.at, model, number}))
      return false;
  }
  return !any_update;
}

// The rank's first update from gradients of which no backward since the update before has averaged
// some.
std::optional<Found> update_from_own_gradients(const Rank& rank, const Agreement& agreement) {
  std::set<std::string> wrapped;
  std::map<std::string, Since> since;
  std::map<std::pair<Moment, std::string>, int> count;
  for (const auto& record : rank.records) {
    const auto* fact = std::get_if<Fact>(&record.what);
    if (!fact) continue;
    if (is_model(fact->name) && fact->truth("wrapped")) wrapped.insert(fact->name);
    if (fact->name == fact::kBackward) {
      const auto model = fact->text("model");
      auto& is = since[model];
      is.last = *is.kinds.insert(fact->text("kind")).first;
      is.last_agrees =
          agreement.backwards.contains({record.at, model, count[{record.at, model}]++});
    }
    if (!is_optimizer(fact->name)) continue;
    for (const auto& [model, name] : owned_in(*fact)) {
      const auto found = since.find(model);
      if (found == since.end()) continue;
      const auto is = found->second;
      since.erase(found);
      if (agreement.averaged.contains(model) ||
          agreement.updates.contains({model, record.at.step}) ||
          !stayed_own(is, wrapped.contains(model)))
        continue;
      const auto place = "step " + std::to_string(record.at.step);
      return Found{
          {"", "update_not_averaged", place + ", update",
           "rank " + std::to_string(rank.number) + ": the update of " + place +
               " took gradients of " + model +
               (is.kinds.size() > 1
                    ? " to which backwards within no_sync had added after the last one that "
                      "averages: the last backward before an update must be outside of no_sync"
                : is.last == "no_sync"
                    ? " that no backward had averaged: all of its backwards since the update "
                      "before ran within no_sync"
                    : " that no backward had averaged: its forwards ran the module itself, "
                      "not its DistributedDataParallel, or all of them within no_sync")},
          record.at};
    }
  }
  return {};
}

std::string mode_text(const Fact& backward) {
  const bool trains = backward.truth("training");
  const std::string mode = trains ? "training mode" : "evaluation mode";
  std::vector<std::string> names;
  for (const auto& name : backward.texts("others")) names.push_back(one_line(name));
  if (names.empty()) return mode;
  return mode + " with " + excerpt(joined(names, ", ")) + " in " +
         (trains ? "evaluation mode" : "training mode");
}

// The kinds of layers, or their settings, of which a model has other numbers on other ranks.
std::optional<Found> other_layers(const RecordedRun& run, const char* field) {
  std::map<std::string, std::map<std::string, std::vector<std::string>>> all;  // by model and kind
  for (size_t rank = 0; rank < run.ranks.size(); ++rank)
    for (const auto& record : run.ranks[rank].records) {
      const auto* model = model_in(record);
      const auto layers = model ? model->values.find(field) : Json::const_iterator();
      if (!model || layers == model->values.end() || !layers->is_object()) continue;
      for (const auto& [kind, count] : layers->items()) {
        auto& counts = all[model->name][one_line(kind)];
        counts.resize(run.ranks.size(), "none");
        counts[rank] = excerpt(count.dump());
      }
    }
  for (const auto& [model, kinds] : all)
    for (const auto& [kind, counts] : kinds)
      if (!all_alike(counts))
        return Found{{"", "other_layers", "step 0, construction",
                      "the layers of " + model + " of type " + kind + ": " + values_text(counts)},
                     {0, "construction"}};
  return {};
}

// Models of which some layers take the statistics of all ranks' batches, and some those of their
// own.
Findings converted_in_part(const RecordedRun& run) {
  Findings remarks;
  for (const auto& record : run.ranks.front().records) {
    const auto* model = model_in(record);
    const auto layers = model ? model->values.find("layers") : Json::const_iterator();
    if (!model || layers == model->values.end() || !layers->is_object()) continue;
    const auto own = model->whole("batch_norms").value_or(0);
    if (own > 0 && layers->contains("SyncBatchNorm"))
      remarks.push_back(
          {"", "converted_in_part", model->name,
           model->name + " has SyncBatchNorm and, beside it, " +
               counted(static_cast<size_t>(own), "layer") +
               " of BatchNorm, which takes the statistics of each rank's own batch: call "
               "convert_sync_batchnorm on the whole model, once all layers are there"});
  }
  return remarks;
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
      const auto* fact = fact_in(record, fact::kBackward);
      if (!fact || !fact->values.contains("training")) continue;
      auto& modes = all[{fact->text("model"), counts[fact->text("model")]++}];
      modes.at = record.at;
      modes.by_rank.resize(run.ranks.size());
      modes.by_rank[rank] = mode_text(*fact);
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

}  // namespace

Judgement forwards_run_through_the_wrapper(const RecordedRun& run) {
  if (run.ranks.size() == 1) return {.why_not = "one rank alone"};
  if (const auto* why = not_data_parallel(run)) return not_covered(why);
  if (auto one = group_of_one(run))
    return {.findings = {std::move(*one)}, .at = Moment{0, "construction"}};
  size_t backwards = 0;
  Judgement judgement;
  const Agreement agreement{averaged_between_updates(run), updates_that_agree(run),
                            backwards_that_agree(run)};
  for (const auto& rank : run.ranks) {
    std::map<std::pair<Moment, std::string>, int> count;
    for (size_t position = 0; position < rank.records.size(); ++position) {
      const auto& record = rank.records[position];
      const auto* fact = fact_in(record, fact::kBackward);
      if (!fact) continue;
      const auto kind = fact->text("kind");
      backwards += kind != "local" && kind != "by hand" ? 1 : 0;
      const auto model = fact->text("model");
      const int number = count[{record.at, model}]++;
      if (agreement.backwards.contains({record.at, model, number})) continue;
      if (auto finding = past_the_wrapper(rank, *fact, record.at);
          finding && took_own(rank, position, model, agreement))
        take_earlier(judgement, Found{std::move(*finding), record.at});
    }
  }
  for (const auto& rank : run.ranks) judgement.add(update_from_own_gradients(rank, agreement));
  take_earlier(judgement, other_mode(run));
  for (const auto* field : {"layers", "settings"})
    take_earlier(judgement, other_layers(run, field));
  judgement.remarks = converted_in_part(run);
  if (auto finding = never_averaged(run); finding && judgement.findings.empty())
    judgement.findings.push_back(std::move(*finding));
  if (backwards == 0 && judgement.findings.empty())
    return {.why_not = "no rank recorded how the forward of a backward ran"};
  judgement.compared = counted(backwards, "backward");
  return judgement;
}

}  // namespace lockstep::recorded
