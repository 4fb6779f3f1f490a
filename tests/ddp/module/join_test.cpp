// Uneven inputs: all ranks receive the error in one step, or none does, and nobody waits in vain.
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
using testing::own;
using testing::run_world;
using testing::same;
using testing::Terms;
using testing::uneven;
using Loss = testing::TermsImpl::Loss;

// One loop over as many inputs as rank r has; what became of it.
std::string loop(DistributedDataParallel<Terms::ContainedType>& ddp, const Group& group,
                 const std::vector<int>& inputs) {
  auto& net = *ddp->module;
  std::string report;
  try {
    auto join = ddp.join(kThrowing);
    for (int i = 0; i < inputs[static_cast<std::size_t>(group->getRank())]; ++i) {
      net.zero_grad();
      ddp.forward(Loss{{0, own(group)}, {1, own(group, 10)}}).backward();
      report += net.gradients() + "; ";
    }
    join.finish();
    report += "even";
  } catch (const UnevenInputsError& error) {
    report += error.what();
  }
  return report;
}

struct Inputs {
  std::vector<int> by_rank;
  int common;  // steps that all ranks make
  std::string reported;
};

// Whatever came before, the next loop is as good as any.
TEST(Join, RaisesTheSameOnAllRanksInOneStepOrNothing) {
  const std::vector<Inputs> cases = {
      {{2, 2}, 2, "even"},
      {{0, 0}, 0, "even"},
      {{3, 1}, 1, uneven("rank 1 has", 1, "rank 0 has")},
      {{2, 3}, 2, uneven("rank 0 has", 2, "rank 1 has")},
      {{0, 2}, 0, uneven("rank 0 has", 0, "rank 1 has")},
      {{3, 3, 3}, 3, "even"},
      {{0, 0, 0}, 0, "even"},
      {{4, 3, 3}, 3, uneven("ranks 1 and 2 have", 3, "rank 0 has")},
      {{3, 0, 3}, 0, uneven("rank 1 has", 0, "ranks 0 and 2 have")},
      {{2, 3, 4}, 2, uneven("rank 0 has", 2, "ranks 1 and 2 have")},
  };
  for (const Inputs& c : cases) {
    const auto world = static_cast<int>(c.by_rank.size());
    const auto reports = run_world(world, [&](const Group& group) {
      Terms net(2);
      DistributedDataParallel ddp(net, {.process_group = group, .bucket_cap_mb = 0.0});
      std::string report = loop(ddp, group, c.by_rank) + " | ";
      ddp->check_reduction_finished();
      report += loop(ddp, group, c.by_rank) + " | ";
      return report + loop(ddp, group, std::vector<int>(c.by_rank.size(), 1));
    });
    const std::string step = world == 2 ? "4.5 4.5 | 45 45; " : "6 6 | 60 60; ";
    std::string reported;
    for (int i = 0; i < c.common; ++i) reported += step;
    reported += c.reported;
    EXPECT_EQ(reports, same(world, reported + " | " + reported + " | " + step + "even"));
  }
}

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

TEST(Join, IsInTheLoggingDataFromItsBeginOnUnlessItIsDisabled) {
  const auto reports = run_world(2, [](const Group& group) {
    Terms net(1);
    DistributedDataParallel ddp(net, {.process_group = group});
    const auto reported = [&] {
      return ddp->logging_data().join_uneven_inputs ? "reported " : "not ";
    };
    std::string report = reported();
    ddp.join({.enable = false}).finish();
    report += reported();
    {
      auto join = ddp.join();
      report += reported();
      join.finish();
    }
    return report + reported();
  });
  EXPECT_EQ(reports, same(2, "not not reported reported "));
}

}  // namespace
}  // namespace lockstep
