// Which histories a campaign keeps: kept_histories.h.
#include "harness/campaign/campaign.h"

#include <algorithm>
#include <set>

namespace lockstep {

// Chooses from each family of scenarios the first case with several ranks, among the smallest ones.
void Campaign::choose_shown_passes() {
  constexpr size_t kLookedAt = 64;
  std::set<std::string> families;
  for (auto& running : jobs_) {
    const Job& job = running.tally.job();
    const auto family = job.scenario.name.substr(0, job.scenario.name.find('.'));
    if (families.contains(family)) continue;
    for (size_t index = 0; index < std::min(kLookedAt, job.cases.size()); ++index) {
      if (!job.shard.plays(static_cast<int64_t>(index) + 1)) continue;
      if (!running.shown) running.shown = index;
      if (job.cases.world_size(index) < 2) continue;
      running.shown = index;
      break;
    }
    if (running.shown) families.insert(family);
  }
}

void Campaign::keep_history(const RunningJob& running, size_t index, const CaseRun& played) {
  const Job& job = running.tally.job();
  const auto c = cases_of(job)[index];
  const std::lock_guard lock(mutex_);
  archive_.keep({.c = c,
                 .setting = job.setting,
                 .number = static_cast<int>(index) + 1,
                 .verdict = played.verdict.kind,
                 .history = played.history});
}

}  // namespace lockstep
