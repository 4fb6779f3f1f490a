#include "harness/invariants/habits/own_trainings.h"

#include "harness/base/text.h"
#include "harness/invariants/endings.h"
#include "harness/invariants/habits/trained_anew.h"
#include "harness/invariants/unwrapped.h"

#include <algorithm>
#include <map>
#include <set>

namespace lockstep::recorded {

namespace {

using Tensors = std::vector<TensorList::Entry>;

// An optimizer of tensors that no wrapper has. `is_apart`: backwards that reached no wrapped model
// precede each of its updates.
struct Optimizer {
  Tensors tensors;
  std::vector<int> steps;  // of its updates
  bool is_apart = true;
};

bool has_owned(const Fact& update) {
  const auto owned = update.values.find("owned");
  return owned != update.values.end() && !owned->empty();
}

std::map<std::string, Optimizer> unwrapped_optimizers_of(const Rank& rank) {
  std::map<std::string, Optimizer> all;
  size_t backwards = 0, of_models = 0;  // since the last update
  for (const auto& record : rank.records) {
    if (const auto* span = std::get_if<Span>(&record.what))
      backwards += span->name == "backward" ? 1 : 0;
    if (const auto* digests = digests_in(record, role::kParameters);
        digests && all[digests->list->of].tensors.empty())
      all[digests->list->of].tensors = digests->list->tensors;
    const auto* fact = std::get_if<Fact>(&record.what);
    if (!fact) continue;
    of_models += fact->name == fact::kBackward ? 1 : 0;
    if (!is_optimizer(fact->name)) continue;
    auto& is = all[fact->name];
    is.steps.push_back(record.at.step);
    is.is_apart = is.is_apart && backwards > 0 && of_models == 0 && !has_owned(*fact);
    backwards = of_models = 0;
  }
  std::erase_if(all, [](const auto& each) { return each.second.steps.empty(); });
  return all;
}

bool updates_a_wrapped_model(const Rank& rank) {
  return std::any_of(rank.records.begin(), rank.records.end(), [](const auto& record) {
    const auto* fact = optimizer_in(record);
    return fact && has_owned(*fact);
  });
}

bool trains(const std::map<std::string, Optimizer>& optimizers, const Tensors& tensors) {
  return std::any_of(optimizers.begin(), optimizers.end(),
                     [&](const auto& each) { return each.second.tensors == tensors; });
}

// The names that the rank's other optimizers have without those that are left out.
std::map<std::string, std::string> new_names(const Rank& rank, const std::set<std::string>& out) {
  std::map<std::string, std::string> names;
  for (const auto& record : rank.records)
    if (const auto* fact = optimizer_in(record); fact && !out.contains(fact->name))
      names.try_emplace(fact->name, "optimizer " + std::to_string(names.size()));
  return names;
}

class Leaving {
 public:
  Leaving(Rank& rank, const std::map<std::string, Optimizer>& own) : rank_(rank) {
    for (const auto& [name, is] : own) {
      names_.insert(name);
      steps_.insert(is.steps.begin(), is.steps.end());
    }
    renamed_ = new_names(rank, names_);
  }

  void leave_out() {
    std::erase_if(rank_.records, [&](const Record& record) { return is_own(record); });
    for (auto& record : rank_.records) {
      shift(record.at);
      rename(record);
    }
    for (auto& event : rank_.history.events) shift(event.at);
    shift(rank_.history.last);
  }

 private:
  bool is_own(const Record& record) const {
    const bool is_at = steps_.contains(record.at.step);
    if (const auto* digests = std::get_if<Digests>(&record.what))
      return names_.contains(digests->list->of) ||
             // The model as it is meanwhile: frozen, say.
             (is_at && record.at.phase == phase::kUpdate && digests->list->role != role::kAverage);
    const auto* fact = std::get_if<Fact>(&record.what);
    if (!fact) return false;
    const bool is_of_losses = fact->name == fact::kTerms || fact->name == fact::kClip;
    return names_.contains(fact->name) || names_.contains(fact->text("of")) ||
           names_.contains(fact->text("optimizer")) || (is_of_losses && is_at);
  }

  void shift(Moment& at) const {
    at.step -= static_cast<int>(std::distance(steps_.begin(), steps_.lower_bound(at.step)));
  }

  void rename(Record& record) const {
    if (auto* digests = std::get_if<Digests>(&record.what)) {
      const auto found = renamed_.find(digests->list->of);
      if (found == renamed_.end()) return;
      auto list = *digests->list;
      list.of = found->second;
      digests->list = std::make_shared<const TensorList>(std::move(list));
    } else if (auto* fact = std::get_if<Fact>(&record.what)) {
      if (const auto found = renamed_.find(fact->name); found != renamed_.end())
        fact->name = found->second;
      for (const char* field : {"of", "optimizer"})
        if (const auto found = renamed_.find(fact->text(field)); found != renamed_.end())
          fact->values[field] = found->second;
    }
  }

  Rank& rank_;
  std::set<std::string> names_;
  std::set<int> steps_;
  std::map<std::string, std::string> renamed_;
};

int64_t elements_in(const Tensors& tensors) {
  int64_t elements = 0;
  for (const auto& tensor : tensors) elements += count_of(tensor.shape);
  return elements;
}

Finding remark_on(const Rank& rank, const std::map<std::string, Optimizer>& own, bool is_anew) {
  int64_t updates = 0, elements = 0;
  for (const auto& [name, is] : own) {
    updates += static_cast<int64_t>(is.steps.size());
    elements = std::max(elements, elements_in(is.tensors));
  }
  if (is_anew)
    return {"", "trained_anew", "each rank",
            "each rank trains " + counted(elements, "element") +
                " of no wrapped model anew between updates of the model, in " +
                counted(updates, "update") +
                ", as perturbations of a batch or what an optimizer learns on: not compared"};
  return {"", "own_training", rank_text(rank),
          rank_text(rank) + " trains " + counted(elements, "element") +
              " of no wrapped model alone, in " + counted(updates, "update") +
              " beside those of the model, as a probe of its features: not compared"};
}

}  // namespace

std::optional<View> without_own_trainings(const RecordedRun& run) {
  std::vector<std::map<std::string, Optimizer>> all;
  for (const auto& rank : run.ranks) {
    if (!wraps_a_model(rank) || !updates_a_wrapped_model(rank) || !rank.joins.empty()) return {};
    all.push_back(unwrapped_optimizers_of(rank));
  }
  const auto anew = trained_anew(run);
  std::optional<View> rest;
  for (size_t number = 0; number < all.size(); ++number) {
    auto own = all[number];
    std::erase_if(own, [&](const auto& each) {
      const auto& is = each.second;
      if (anew.contains(each.first)) return false;
      return !is.is_apart || is.tensors.empty() ||
             std::all_of(all.begin(), all.end(),
                         [&](const auto& rank) { return trains(rank, is.tensors); });
    });
    if (own.empty()) continue;
    if (!rest) rest = View{run};
    auto& rank = rest->run.ranks[number];
    Leaving(rank, own).leave_out();
    const bool is_anew =
        std::ranges::all_of(own, [&](const auto& each) { return anew.contains(each.first); });
    if (!is_anew || number == 0) rest->remarks.push_back(remark_on(rank, own, is_anew));
  }
  return rest;
}

}  // namespace lockstep::recorded
