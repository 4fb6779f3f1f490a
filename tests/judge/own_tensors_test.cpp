// Checks tensors that each rank has of its own on purpose.
#include "harness/invariants/own_tensors.h"

#include "harness/invariants/canaries/right_run.h"
#include "harness/invariants/invariants.h"

#include <gtest/gtest.h>

namespace lockstep::recorded {
namespace {

Digests own(const std::string& role, uint64_t bits) {
  TensorList list{.of = "optimizer 0", .role = role, .tensors = {{"parameter 2", "float32", {2}}}};
  return {std::make_shared<const TensorList>(std::move(list)), {{bits, 1}}};
}

// An expert of each rank, beside the model that all ranks train, to which tokens go or not.
TEST(OwnTensors, AreNotComparedWhereRanksExchangeWhatIsForThem) {
  for (const bool exchanges : {true, false}) {
    auto run = right_run();
    for (auto& rank : run.ranks) {
      nth<Fact>(rank, 0, "model 0").values["wrapper"] = "DistributedDataParallel";
      const auto number = static_cast<uint64_t>(rank.number);
      rank.records.insert(rank.records.begin(), {{0, "construction"}, own("parameters", number)});
      for (int step = 0; step < kSteps; ++step) {
        rank.records.push_back({{step, "update"}, own("parameters", 10 + number)});
        rank.history.events.push_back({{step, "forward"},
                                       Collective{.op = exchanges ? "alltoall_base" : "barrier",
                                                  .group = "tokens",
                                                  .sequence = step}});
      }
    }
    const auto rest = without_own_tensors(run);
    ASSERT_EQ(rest.has_value(), exchanges);
    const auto judgement = parameters_are_the_same(rest ? *rest : run);
    EXPECT_EQ(judgement.findings.empty(), exchanges);
    if (exchanges) EXPECT_EQ(judgement.remarks.at(0).pattern, "own_tensors");
  }
}

}  // namespace
}  // namespace lockstep::recorded
