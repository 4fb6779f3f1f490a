#include "harness/invariants/taken_gradients.h"

#include "harness/invariants/against/against_causes.h"
#include "harness/verdict/trace.h"

#include <algorithm>
#include <cmath>

namespace lockstep::recorded {

namespace {

constexpr const char* kUnchanged = "those of the backward";
constexpr double kPart = 1e-3;  // by which rounding changes a factor

std::optional<Row> last_in_step(const RecordedRun& run, const char* role, const Row& of) {
  std::optional<Row> last;
  for (auto& each : rows_of(run, role))
    if (each.of == of.of && each.at.step == of.at.step) last = std::move(each);
  return last;
}

// Names what an update took, of gradients that were `before` behind the backward.
std::string taken_text(const Digests& before, const Digests& after) {
  if (have_equal_bits(before, after)) return kUnchanged;
  const double factor = factor_between(before, after);
  const auto number = short_number(factor);
  return factor == 0 || number == "1" ? "others" : number + " times those";
}

}  // namespace

double factor_between(const Digests& before, const Digests& after) {
  double factor = 0;
  if (before.values.size() != after.values.size()) return 0;
  for (size_t tensor = 0; tensor < before.values.size(); ++tensor) {
    const auto &from = before.values[tensor], &to = after.values[tensor];
    if (!(from.norm > 0)) continue;
    const double here = to.norm / from.norm;
    if (!(std::abs(here - (factor == 0 ? here : factor)) <= 1e-3 * here)) return 0;
    factor = here;
  }
  return factor;
}

double factor_taken(const RecordedRun& run, const std::string& of, int step) {
  const auto factor_of = [&](const Rank& rank) {
    const Digests* last = nullptr;
    for (const auto& record : rank.records) {
      const auto* is = std::get_if<Digests>(&record.what);
      if (!is || is->list->of != of) continue;
      if (is->list->role == role::kGradients) last = is;
      if (is->list->role == role::kTaken && record.at.step == step)
        return last ? factor_between(*last, *is) : 0;
    }
    return 1.0;
  };
  const double first = factor_of(run.ranks.front());
  const bool have_all = std::ranges::all_of(run.ranks, [&](const Rank& rank) {
    return std::abs(factor_of(rank) - first) <= kPart * first;
  });
  return have_all ? first : 0;
}

void add_how_gradients_parted(const RecordedRun& run, const Row& row, Finding& finding) {
  if (row.at.phase != phase::kUpdate) return;
  auto taken = last_in_step(run, "taken", row);
  if (!taken) return;
  const auto averaged = last_in_step(run, "gradients", row);
  if (!averaged) {
    if (difference_in(*taken, ""))
      finding.diagnosis +=
          ": the update took gradients of this step before a backward had averaged them, or that "
          "no backward() computed: a step within the backward, or torch.autograd.grad";
    return;
  }
  if (!averaged->is_whole() || difference_in(*averaged, "")) return;
  std::vector<std::string> texts;
  std::vector<int> changed;
  for (size_t rank = 0; rank < taken->by_rank.size(); ++rank) {
    const auto* had = averaged->by_rank[rank];
    auto& took = taken->by_rank[rank];
    if (!took) took = had;  // a rank that changed nothing has no further record
    texts.push_back(taken_text(*had, *took));
    if (texts.back() != kUnchanged) changed.push_back(static_cast<int>(rank));
  }
  if (!difference_in(*taken, "")) return;
  finding.diagnosis +=
      ": the ranks had the same gradients after the backward, and others as the update took "
      "them: " +
      values_text(texts);
  finding.details.push_back(Cause{
      (changed.size() == texts.size() ? "each rank" : ranks_text(changed) + " alone") +
      " changed its gradients between the backward and the update: by clipping, by the scale of a "
      "GradScaler, or by hand"});
}

}  // namespace lockstep::recorded
