#include "harness/invariants/habits/populations.h"

#include "harness/invariants/local_updates.h"
#include "harness/invariants/optimizers/settings.h"
#include "harness/invariants/unwrapped.h"

#include <algorithm>
#include <map>
#include <set>

namespace lockstep::recorded {

namespace {

bool began_unlike(const RecordedRun& run) {
  const auto rows = rows_of(run, role::kParameters);
  return std::any_of(rows.begin(), rows.end(), [](const Row& row) {
    return row.at.phase == phase::kConstruction && row.is_whole() && difference_in(row, "");
  });
}

// From the first update on: those of a schedule by each rank's own loss are alike then.
bool has_unlike_settings(const RecordedRun& run) {
  const auto first = updates_by_optimizer(run.ranks.front());
  for (const auto& rank : run.ranks)
    for (const auto& [name, updates] : updates_by_optimizer(rank)) {
      const auto found = first.find(name);
      if (found != first.end() && !updates.empty() && !found->second.empty() &&
          settings_of(*updates.front().optimizer) != settings_of(*found->second.front().optimizer))
        return true;
    }
  return false;
}

// The ranks whose whole parameters another rank has between two updates, which had others before;
// with `some_keep_theirs` at moments alone at which the ranks have more than one model.
std::set<size_t> ranks_copied(const RecordedRun& run, bool some_keep_theirs) {
  std::set<size_t> copied;
  std::map<std::string, std::vector<const Digests*>> last;  // by optimizer
  for (const auto& row : rows_of(run, role::kParameters)) {
    if (!is_optimizer(row.of)) continue;
    auto& before = last[row.of];
    before.resize(row.by_rank.size(), nullptr);
    auto after = before;
    keep_latest(row, after);
    if (row.at.phase == phase::kForward && !(some_keep_theirs && all_hold_the_same(after)))
      for (size_t rank = 0; rank < before.size(); ++rank)
        for (size_t other = 0; other < before.size(); ++other)
          if (hold_the_same(row.by_rank[rank], before[other]) &&
              !hold_the_same(before[rank], before[other]))
            copied.insert(other);
    before = std::move(after);
  }
  return copied;
}

}  // namespace

bool trains_a_population(const RecordedRun& run) {
  constexpr size_t kCopiedLeast = 2;
  const bool any_wrapped = std::any_of(run.ranks.begin(), run.ranks.end(),
                                       [](const Rank& rank) { return wraps_a_model(rank); });
  if (run.ranks.size() == 1 || any_wrapped || !takes_own_gradients(run)) return false;
  const bool are_known_apart = has_unlike_settings(run);
  return (are_known_apart || began_unlike(run)) &&
         ranks_copied(run, /*some_keep_theirs=*/!are_known_apart).size() >= kCopiedLeast;
}

}  // namespace lockstep::recorded
