#include "harness/invariants/data/uneven_batches.h"

#include "harness/base/text.h"
#include "harness/invariants/rows.h"
#include "harness/recorded/passes.h"

#include <algorithm>

namespace lockstep::recorded {

namespace {

bool is_uneven(const PassRow& row) {
  size_t most = 0;
  for (const auto& pass : row.by_rank) most = std::max(most, pass.batch_count());
  return std::any_of(row.by_rank.begin(), row.by_rank.end(), [&](const Pass& pass) {
    return pass.is_whole() && pass.batch_count() < most;
  });
}

// Names the settings in which the loaders differ: "; its batch_size: rank 0 has 4, rank 1 has 6".
std::string settings_text(const PassRow& row) {
  std::string text;
  for (const auto* field : {"length", "batch_size", "drops_batch", "replicas"}) {
    std::vector<std::string> by_rank;
    for (const auto& pass : row.by_rank) {
      const auto found = pass.is->values.find(field);
      by_rank.push_back(found == pass.is->values.end() ? "none" : excerpt(found->dump()));
    }
    if (!all_alike(by_rank)) text += "; its " + std::string(field) + ": " + values_text(by_rank);
  }
  return text;
}

}  // namespace

Details uneven_batches(const RecordedRun& run) {
  if (std::any_of(run.ranks.begin(), run.ranks.end(),
                  [](const Rank& rank) { return !rank.joins.empty(); }))
    return {};
  for (const auto& row : pass_rows(run)) {
    const bool trains = std::any_of(row.by_rank.begin(), row.by_rank.end(),
                                    [](const Pass& pass) { return pass.trains; });
    if (!trains || !is_uneven(row)) continue;
    std::vector<std::string> by_rank;
    for (const auto& pass : row.by_rank)
      by_rank.push_back(counted(pass.batch_count(), "batch", "batches") +
                        (pass.is_whole() ? "" : " so far"));
    return {Cause{"ranks get unlike numbers of batches in " + row.place() + ": " +
                  values_text(by_rank) + settings_text(row)},
            "a rank that has none left continues alone. The cure: parts of one length, and one "
            "batch_size and drop_last, on all ranks, as many batches as the rank with fewest has, "
            "or model.join() around the loop"};
  }
  return {};
}

}  // namespace lockstep::recorded
