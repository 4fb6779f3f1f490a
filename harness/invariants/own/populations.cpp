#include "harness/invariants/own/populations.h"

#include "harness/invariants/local_updates.h"
#include "harness/invariants/optimizers/settings.h"
#include "harness/invariants/unwrapped.h"

#include <algorithm>
#include <map>
#include <set>

namespace lockstep::recorded {

namespace {

bool updates_by_own_gradients(const RecordedRun& run) {
  bool any = false;
  for (const auto& row : rows_of(run, "gradients")) {
    if (!row.is_whole() || !row.of.starts_with("optimizer ")) continue;
    if (!difference_in(row, "")) return false;
    any = true;
  }
  return any;
}

bool began_unlike(const RecordedRun& run) {
  const auto rows = rows_of(run, "parameters");
  return std::any_of(rows.begin(), rows.end(), [](const Row& row) {
    return row.at.phase == "construction" && row.is_whole() && difference_in(row, "");
  });
}

bool has_unlike_settings(const RecordedRun& run) {
  const auto first = updates_by_optimizer(run.ranks.front());
  for (const auto& rank : run.ranks)
    for (const auto& [name, updates] : updates_by_optimizer(rank)) {
      const auto found = first.find(name);
      for (size_t at = 0; found != first.end() && at < updates.size() && at < found->second.size();
           ++at)
        if (settings_of(*updates[at].optimizer) != settings_of(*found->second[at].optimizer))
          return true;
    }
  return false;
}

// The ranks whose whole parameters another rank has between two updates, which had others before.
std::set<size_t> ranks_copied(const RecordedRun& run) {
  std::set<size_t> copied;
  std::map<std::string, std::vector<const Digests*>> last;  // by optimizer
  for (const auto& row : rows_of(run, "parameters")) {
    if (!row.of.starts_with("optimizer ")) continue;
    auto& before = last[row.of];
    before.resize(run.ranks.size(), nullptr);
    if (row.at.phase == "forward")
      for (size_t rank = 0; rank < before.size(); ++rank)
        for (size_t other = 0; other < before.size(); ++other)
          if (hold_the_same(row.by_rank[rank], before[other]) &&
              !hold_the_same(before[rank], before[other]))
            copied.insert(other);
    for (size_t rank = 0; rank < before.size(); ++rank)
      if (row.by_rank[rank]) before[rank] = row.by_rank[rank];
  }
  return copied;
}

}  // namespace

bool trains_a_population(const RecordedRun& run) {
  constexpr size_t kCopiedLeast = 2;
  const bool any_wrapped = std::any_of(run.ranks.begin(), run.ranks.end(),
                                       [](const Rank& rank) { return wraps_a_model(rank); });
  return run.ranks.size() > 1 && !any_wrapped && updates_by_own_gradients(run) &&
         (began_unlike(run) || has_unlike_settings(run)) &&
         ranks_copied(run).size() >= kCopiedLeast;
}

}  // namespace lockstep::recorded
