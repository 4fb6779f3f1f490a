// Checks which optimizers count as averaged between their updates.
#include "harness/invariants/local_updates.h"

#include "harness/invariants/canaries/right_run.h"

#include <gtest/gtest.h>

namespace lockstep::recorded {
namespace {

// Rank by rank an optimizer updates in step 0, and another one with the same tensors from step 1
// on.
RecordedRun run_of_two_optimizers(bool begins_equal) {
  auto run = right_run();
  for (auto& rank : run.ranks) {
    rank.history.events.clear();
    for (auto& record : rank.records) {
      auto* is = std::get_if<Digests>(&record.what);
      if (!is || (is->list->role != "parameters" && is->list->role != "gradients")) continue;
      const bool is_first = record.at.step == 0;
      auto list = *is->list;
      list.of = is_first ? "optimizer 0" : "optimizer 1";
      is->list = std::make_shared<const TensorList>(list);
      const bool begins = record.at.step == 1 && list.role == "parameters";
      if (begins) record.at.phase = "construction";
      if (record.at.phase == "construction" ? begins && !begins_equal : true)
        is->values[0].bits += static_cast<uint64_t>(rank.number);
    }
  }
  return run;
}

TEST(LocalUpdates, WhoseOptimizerIsMadeAnewBeginWithAnAverageThatSomethingSent) {
  for (const bool sends : {false, true})
    for (const bool begins_equal : {false, true}) {
      auto run = run_of_two_optimizers(begins_equal);
      for (auto& rank : run.ranks)
        if (sends)
          rank.history.events.push_back(
              {{0, "update"}, Collective{.op = "allreduce", .group = "world", .elements = 1000}});
      // Two folds that begin from one seed are equal too, and nothing averaged the first.
      EXPECT_EQ(averaged_between_updates(run).size(), sends && begins_equal ? 2u : 0u)
          << sends << begins_equal;
    }
}

}  // namespace
}  // namespace lockstep::recorded
