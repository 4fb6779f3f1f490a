#include "harness/invariants/habits/trained_anew.h"

#include "harness/invariants/optimizers/settings.h"
#include "harness/invariants/unwrapped.h"

#include <algorithm>
#include <map>

namespace lockstep::recorded {

namespace {

constexpr size_t kTrainingsLeast = 2;

using Tensors = std::vector<TensorList::Entry>;

// A rank's updates of some tensors between two updates of a wrapped model.
struct Training {
  size_t interval = 0;  // how many updates of wrapped models came before
  const Digests *begun = nullptr, *left = nullptr;
  std::set<std::string> optimizers;
};

// The trainings of each list of tensors, in their order.
using Trainings = std::vector<std::pair<Tensors, std::vector<Training>>>;

std::vector<Training>& trainings_of(Trainings& all, const Tensors& tensors) {
  const auto found = std::ranges::find(all, tensors, &Trainings::value_type::first);
  return found != all.end() ? found->second : all.emplace_back(tensors, 0).second;
}

Trainings trainings_in(const Rank& rank) {
  Trainings all;
  size_t interval = 0;
  std::map<std::string, const Digests*> before;  // what an optimizer's tensors held last
  for (const auto& record : rank.records) {
    if (const auto* update = optimizer_in(record)) interval += owned_in(*update).empty() ? 0 : 1;
    const auto* is = digests_in(record, role::kParameters);
    if (!is || !is_optimizer(is->list->of)) continue;
    const auto& name = is->list->of;
    if (record.at.phase == phase::kUpdate) {
      auto& trainings = trainings_of(all, is->list->tensors);
      if (trainings.empty() || trainings.back().interval != interval)
        trainings.push_back({interval, before[name], nullptr, {}});
      trainings.back().left = is;
      trainings.back().optimizers.insert(name);
    }
    before[name] = is;
  }
  return all;
}

// True if the training begins with the same values on all ranks, which no rank left before.
bool begins_anew(const std::vector<const std::vector<Training>*>& ranks, size_t number) {
  const auto* first = (*ranks.front())[number].begun;
  return std::ranges::all_of(ranks, [&](const auto* trainings) {
    const auto& is = (*trainings)[number];
    if (!is.begun || !first || !have_equal_bits(*is.begun, *first)) return false;
    return number == 0 || !have_equal_bits(*(*trainings)[number - 1].left, *first);
  });
}

}  // namespace

std::set<std::string> trained_anew(const RecordedRun& run) {
  std::vector<Trainings> all;
  for (const auto& rank : run.ranks) all.push_back(trainings_in(rank));
  std::set<std::string> names;
  for (const auto& [tensors, of_first] : all.front()) {
    std::vector<const std::vector<Training>*> ranks;
    for (auto& rank : all) ranks.push_back(&trainings_of(rank, tensors));
    const auto times = of_first.size();
    bool are_anew = times >= kTrainingsLeast;
    for (size_t rank = 0; are_anew && rank < ranks.size(); ++rank)
      are_anew = ranks[rank]->size() == times &&
                 elements_averaged(run.ranks[rank], "") < elements_in(*of_first.front().left);
    for (size_t number = 0; are_anew && number < times; ++number)
      are_anew = begins_anew(ranks, number);
    for (const auto& training : of_first)
      if (are_anew) names.insert(training.optimizers.begin(), training.optimizers.end());
  }
  return names;
}

}  // namespace lockstep::recorded
