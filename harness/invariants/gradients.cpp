// Judges whether gradients are averaged where they should be, and only there.
#include "harness/base/text.h"
#include "harness/invariants/at_wrapping.h"
#include "harness/invariants/optimizers/clipped_parts.h"
#include "harness/verdict/trace.h"

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
      const auto* fact = fact_in(record, fact::kBackward);
      if (fact) last[fact->text("model")] = fact->text("kind");
      const auto* digests = std::get_if<Digests>(&record.what);
      if (digests && digests->list->role == role::kGradients)
        kinds[digests] = last[digests->list->of];
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

// Gradients that were never cleared, and those that changed between two backwards of one step.
void add_remarks_on_steps(const RecordedRun& run, Judgement& judgement) {
  size_t first_backwards = 0, kept = 0;
  std::optional<Moment> changed;
  std::map<std::string, int> last;  // step of each model's last backward
  for (const auto& record : run.ranks.front().records) {
    const auto* fact = fact_in(record, fact::kBackward);
    if (!fact) continue;
    first_backwards += fact->values.contains("kept") ? 1 : 0;
    kept += fact->truth("kept") ? 1 : 0;
    const bool is_first =
        !last.contains(fact->text("model")) || last[fact->text("model")] != record.at.step;
    last[fact->text("model")] = record.at.step;
    if (fact->truth("changed") && !is_first && !changed) changed = record.at;
  }
  if (kept > 1 && kept == first_backwards)
    judgement.remarks.push_back(
        {"", "never_cleared", "",
         "no update was followed by zero_grad: each backward added to the gradients of all before "
         "it, in " +
             counted(kept, "step")});
  if (changed)
    judgement.remarks.push_back(
        {"", "changed_between_backwards", "step " + std::to_string(changed->step) + ", backward",
         "gradients were changed between two backwards of one step: clipped before they were "
         "averaged, say, which is not the clipping of one process"});
}

// By model and step, whether each rank added the step's first backward to gradients that an update
// had taken and nothing had cleared since.
std::map<std::pair<std::string, int>, std::vector<std::optional<bool>>> kept_gradients(
    const RecordedRun& run) {
  std::map<std::pair<std::string, int>, std::vector<std::optional<bool>>> kept;
  for (size_t rank = 0; rank < run.ranks.size(); ++rank)
    for (const auto& record : run.ranks[rank].records) {
      const auto* fact = fact_in(record, fact::kBackward);
      if (!fact || !fact->values.contains("kept") || fact->text("kind") != "synchronised") continue;
      auto& by_rank = kept[{fact->text("model"), record.at.step}];
      by_rank.resize(run.ranks.size());
      if (!by_rank[rank]) by_rank[rank] = fact->truth("kept");
    }
  return kept;
}

// Gradients that some ranks clear and others do not: what a wrapper averages is of one step on the
// ones, and of all steps on the others.
std::optional<Found> cleared_on_some_ranks(const RecordedRun& run) {
  constexpr size_t kStepsLeast = 2;
  std::map<std::string, size_t> steps;  // by model
  for (const auto& [key, by_rank] : kept_gradients(run)) {
    const auto& [model, step] = key;
    std::vector<std::string> texts;
    for (const auto& is_kept : by_rank)
      texts.push_back(!is_kept ? "" : *is_kept ? "kept them" : "cleared them");
    const bool all_known = std::ranges::none_of(texts, &std::string::empty);
    if (!all_known || all_alike(texts) || ++steps[model] < kStepsLeast) continue;
    return Found{{"", "cleared_on_some_ranks", "step " + std::to_string(step) + ", backward",
                  "the gradients that the update before had taken, as the backward of " + model +
                      " added to them: " + values_text(texts) +
                      ": the average over the ranks is of unlike sums"},
                 {step, std::string(phase::kBackward)}};
  }
  return {};
}

// True if the program said that some parameters may be unused, or trains without
// DistributedDataParallel, which needs to know.
bool may_have_unused_parameters(const Fact& model) {
  const auto wrapper = model.text("wrapper");
  const bool is_watched = model.values.contains("wrapped") && !model.truth("wrapped");
  return model.truth("find_unused_parameters") || model.truth("static_graph") || is_watched ||
         (!wrapper.empty() && wrapper != "DistributedDataParallel");
}

std::optional<Finding> never_reached(const std::string& model,
                                     const std::map<std::string, bool>& parameters) {
  std::vector<std::string> without;
  for (const auto& [name, is_reached] : parameters)
    if (!is_reached) without.push_back(model + " " + name);
  if (without.empty()) return {};
  return Finding{"", "never_a_gradient", without.front(),
                 counted(without.size(), "parameter") + " of " + std::to_string(parameters.size()) +
                     " got no gradient on any rank in any backward, first " + without.front(),
                 Details(without.begin(), without.end())};
}

}  // namespace

Judgement gradients_are_the_same(const RecordedRun& run) {
  if (run.ranks.size() == 1) return {.why_not = "one rank alone"};
  const auto kinds = kinds_of(run);
  Judgement judgement;
  size_t compared = 0;
  for (const auto& row : rows_of(run, role::kGradients)) {
    if (!row.is_whole() || row.at.phase != phase::kBackward) continue;
    const auto by_rank = kinds_in(row, kinds);
    auto finding = std::optional<Finding>();
    if (!are_all(by_rank, by_rank.front())) {
      finding = Finding{"", "synchronised_on_some_ranks", place_of(row),
                        "the backward of " + row.of + ": " + values_text(by_rank)};
    } else if (by_rank.front() == "synchronised" && (!row.is_divided() || has_comparison(row))) {
      ++compared;
      finding = difference_in(row, "gradients of " + row.of);
      if (finding) finding->details += unknown_to_the_wrapper(run, row);
    }
    if (!finding) continue;
    judgement.add(Found{std::move(*finding), row.at});
    break;
  }
  take_earlier(judgement, clipped_by_part(run));
  take_earlier(judgement, cleared_on_some_ranks(run));
  if (judgement.findings.empty() && compared == 0)
    return {.why_not = "no backward was synchronised on all ranks"};
  judgement.compared = counted(compared, "backward");
  add_remarks_on_steps(run, judgement);
  return judgement;
}

Judgement gradients_differ_in_no_sync(const RecordedRun& run) {
  if (run.ranks.size() == 1) return {.why_not = "one rank alone"};
  const auto kinds = kinds_of(run);
  Judgement judgement;
  size_t compared = 0;
  for (const auto& row : rows_of(run, role::kGradients)) {
    if (!row.is_whole() || row.at.phase != phase::kBackward || !stayed_local(kinds_in(row, kinds)))
      continue;
    ++compared;
    if (!computed_the_same(row)) continue;
    judgement.add(
        Found{{"", "same_data", place_of(row),
               "gradients of " + row.of +
                   ": all ranks computed the same ones within no_sync, so all have the same batch"},
              row.at});
    break;
  }
  if (compared == 0) return {.why_not = "no backward ran within no_sync"};
  judgement.compared = counted(compared, "backward");
  return judgement;
}

Judgement gradients_reach_every_parameter(const RecordedRun& run) {
  std::map<std::string, std::map<std::string, bool>> reached;  // by model and parameter
  std::set<std::string> lenient;                               // models that may have unused ones
  for (const auto& rank : run.ranks)
    for (const auto& record : rank.records) {
      if (const auto* model = model_in(record); model && may_have_unused_parameters(*model))
        lenient.insert(model->name);
      const auto* digests = digests_in(record, role::kGradients);
      if (!digests || is_optimizer(digests->list->of)) continue;
      for (size_t tensor = 0; tensor < digests->values.size(); ++tensor) {
        auto& is = reached[digests->list->of][digests->list->tensors[tensor].name];
        is = is || !digests->values[tensor].is_missing();
      }
    }
  if (reached.empty())
    return {.why_not = "no rank recorded gradients of a model: none was wrapped or watched"};
  Judgement judgement;
  size_t count = 0;
  for (const auto& [model, parameters] : reached) {
    count += parameters.size();
    auto finding = never_reached(model, parameters);
    if (!finding) continue;
    auto& where = lenient.contains(model) ? judgement.remarks : judgement.findings;
    where.push_back(std::move(*finding));
  }
  judgement.compared = counted(count, "parameter");
  return judgement;
}

}  // namespace lockstep::recorded
