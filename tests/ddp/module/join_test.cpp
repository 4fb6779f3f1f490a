// Joins that throw: which forwards count, and what is refused.
#include "ddp/join.h"

#include "ddp/distributed_data_parallel.h"
#include "ddp/errors.h"
#include "tests/ddp/forked_world.h"
#include "tests/ddp/module/joins.h"
#include "tests/ddp/modules.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace lockstep {
namespace {

using testing::Counting;
using testing::Group;
using testing::kThrowing;
using testing::run_world;
using testing::same;
using testing::Terms;
using testing::uneven;
using Loss = testing::TermsImpl::Loss;

// Ranks evaluate as they like, where that sends nothing; a forward that sends buffers is counted.
TEST(Join, CountsForwardsWithoutGradientsOnlyWhereTheySend) {
  for (const bool buffers : {false, true}) {
    const auto reports = run_world(2, [&](const Group& group) {
      Counting net(group->getRank() + 1.0);
      DistributedDataParallel ddp(net, {.process_group = group, .forward_sync_buffers = buffers});
      std::string report;
      auto join = ddp.join(kThrowing);
      try {
        ddp.forward(torch::ones({1}, at::kDouble), 1).backward();
        const torch::NoGradGuard no_grad;
        for (int i = 0; i < 3 * group->getRank(); ++i)
          ddp.forward(torch::ones({1}, at::kDouble), 1);
        join.finish();
        report = "even";
      } catch (const UnevenInputsError& error) {
        report = error.what();
      }
      return report;
    });
    EXPECT_EQ(reports, same(2, buffers ? uneven("rank 0 has", 1, "rank 1 has") : "even"));
  }
}

TEST(Join, FindsForwardsOfDifferentKinds) {
  const auto reports = run_world(3, [](const Group& group) {
    Terms net(1);
    DistributedDataParallel ddp(net, {.process_group = group});
    auto join = ddp.join(kThrowing);
    std::optional<NoSyncGuard> local;
    if (group->getRank() == 1) local.emplace(ddp.no_sync());
    ddp.forward(Loss{{0, 1.0}});
    return std::string("accepted");
  });
  EXPECT_EQ(reports, same(3,
                          "DisagreementError: ranks disagree on what comes next in a join: ranks 0 "
                          "and 2 have a synchronised forward; rank 1 has a local forward (inside "
                          "no_sync, or without gradients)"));
}

TEST(Join, ComparesItsOptions) {
  const auto attempt = [](const JoinOptions& of_rank_one) {
    return run_world(2, [&](const Group& group) {
      Terms net(1);
      DistributedDataParallel ddp(net, {.process_group = group});
      const auto join = ddp.join(group->getRank() == 1 ? of_rank_one : kThrowing);
      return std::string("accepted");
    });
  };
  const auto reported = [](const std::string& option, const char* zero, const char* one) {
    return same(2, "DisagreementError: ranks disagree on join's " + option + ": rank 0 has " +
                       zero + "; rank 1 has " + one);
  };
  EXPECT_EQ(attempt({.throw_on_early_termination = true, .enable = false}),
            reported("enable", "true", "false"));
  EXPECT_EQ(attempt({}), reported("throw_on_early_termination", "true", "false"));
  EXPECT_EQ(attempt({.throw_on_early_termination = true, .divide_by_initial_world_size = false}),
            reported("divide_by_initial_world_size", "true", "false"));
}

}  // namespace
}  // namespace lockstep
