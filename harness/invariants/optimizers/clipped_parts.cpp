#include "harness/invariants/optimizers/clipped_parts.h"

#include "harness/invariants/optimizers/settings.h"
#include "harness/verdict/trace.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace lockstep::recorded {

namespace {

constexpr double kSame = 1e-3;  // relative, between factors of one rank, and of two

using Norms = std::map<std::string, double>;  // of the tensors that the rank holds

Norms norms_of(const Digests* digests) {
  Norms norms;
  for (size_t at = 0; digests && at < digests->values.size(); ++at)
    if (const auto& is = digests->values[at]; std::isfinite(is.norm) && is.norm > 0)
      norms[digests->list->tensors[at].name] = is.norm;
  return norms;
}

// The parameters of a model that a rank updates for all: those that its optimizers say, or else
// those of which it alone has a state.
std::vector<std::set<std::string>> parts_of(const RecordedRun& run, const std::string& model) {
  std::vector<std::set<std::string>> said(run.ranks.size()), with_state = said;
  std::map<std::string, size_t> holders;
  for (size_t rank = 0; rank < run.ranks.size(); ++rank) {
    for (const auto& record : run.ranks[rank].records) {
      if (const auto* fact = optimizer_in(record))
        for (const auto& [of, name] : names_in(*fact, "part"))
          if (of == model) said[rank].insert(name);
      const auto* digests = digests_in(record, role::kState);
      if (!digests) continue;
      for (const auto& tensor : digests->list->tensors)
        if (const auto end = tensor.name.rfind(' ');
            tensor.name.starts_with(model + " ") && end > model.size())
          with_state[rank].insert(tensor.name.substr(model.size() + 1, end - model.size() - 1));
    }
    for (const auto& name : with_state[rank]) ++holders[name];
  }
  for (auto& part : with_state)
    std::erase_if(part, [&](const auto& name) { return holders[name] > 1; });
  const bool any_said =
      std::any_of(said.begin(), said.end(), [](const auto& part) { return !part.empty(); });
  return any_said ? said : with_state;
}

// The one factor between the gradients of a rank's part and what its update took of them; none
// where there are several, or too few tensors to tell.
std::optional<double> factor_of(const Digests* gradients, const Digests* taken,
                                const std::set<std::string>* part) {
  const auto before = norms_of(gradients), after = taken ? norms_of(taken) : before;
  std::vector<double> factors;
  for (const auto& [name, norm] : before)
    if (const auto found = after.find(name);
        found != after.end() && (!part || part->contains(name)))
      factors.push_back(found->second / norm);
  if (factors.size() < 2) return {};
  const auto [least, most] = std::minmax_element(factors.begin(), factors.end());
  if (*most - *least > kSame * *most) return {};
  return *least;
}

std::string text_of(double factor) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.3g", factor);
  return text;
}

}  // namespace

std::optional<Found> clipped_by_part(const RecordedRun& run) {
  std::map<std::pair<std::string, int>, Row> gradients;  // the last of each model and step
  for (const auto& row : rows_of(run, role::kGradients))
    gradients.insert_or_assign({row.of, row.at.step}, row);
  for (const auto& row : rows_of(run, role::kTaken)) {
    const auto found = gradients.find({row.of, row.at.step});
    if (found == gradients.end() || !found->second.is_whole()) continue;
    const auto parts = parts_of(run, row.of);
    std::vector<std::string> texts;
    std::vector<double> factors;
    for (size_t rank = 0; rank < row.by_rank.size(); ++rank)
      if (const auto factor = factor_of(found->second.by_rank[rank], row.by_rank[rank],
                                        row.is_divided() ? nullptr : &parts[rank])) {
        factors.push_back(*factor);
        texts.push_back(text_of(*factor));
      }
    if (factors.size() < row.by_rank.size()) continue;
    const auto [least, most] = std::minmax_element(factors.begin(), factors.end());
    if (*most - *least <= kSame * *most) continue;
    return Found{
        Finding{
            "",
            "clipped_by_part",
            place_of(row),
            "each rank updates a part of " + row.of + ", and before the update of step " +
                std::to_string(row.at.step) +
                " its gradients were multiplied by another factor on each: " + values_text(texts),
            {Cause{"each rank clips by the norm of its own part: clip by the norm of all, with "
                   "the method of the model that is divided (clip_grad_norm_ of "
                   "FullyShardedDataParallel), or before any part is chosen"}}},
        row.at};
  }
  return {};
}

}  // namespace lockstep::recorded
