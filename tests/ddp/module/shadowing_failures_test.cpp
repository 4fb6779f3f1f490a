// Joins in which ranks without inputs shadow their peers: what is refused, and what goes
// wrong.
#include "ddp/convert_sync_batchnorm.h"
#include "ddp/distributed_data_parallel.h"
#include "ddp/errors.h"
#include "ddp/init.h"
#include "ddp/join.h"
#include "tests/ddp/forked_world.h"
#include "tests/ddp/module/joins.h"
#include "tests/ddp/modules.h"

#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/torch.h>

namespace lockstep {
namespace {

using testing::count_of;
using testing::Group;
using testing::own;
using testing::run_world;
using testing::same;
using testing::Terms;
using testing::ThrowsBelowZero;
using Loss = testing::TermsImpl::Loss;

TEST(FailuresOfShadowing, IsRefusedWhereItCannotBeDone) {
  const auto of_static = run_world(2, [](const Group& group) {
    Terms net(1);
    DistributedDataParallel ddp(net, {.process_group = group, .static_graph = true});
    const auto join = ddp.join();
    return std::string("accepted");
  });
  EXPECT_EQ(of_static,
            same(2,
                 "DisagreementError: ranks 0 and 1 of 2 cannot take part: join() without "
                 "throw_on_early_termination and static_graph: a rank without inputs in the first "
                 "pass does not learn what its graph is"));
  const auto of_layers = run_world(2, [](const Group& group) {
    torch::nn::Sequential net(torch::nn::Linear(2, 2), torch::nn::BatchNorm1d(2));
    convert_sync_batchnorm(net.ptr(), group);
    DistributedDataParallel ddp(net, {.process_group = group});
    const auto join = ddp.join();
    return std::string("accepted");
  });
  EXPECT_EQ(of_layers,
            same(2,
                 "DisagreementError: ranks 0 and 1 of 2 cannot take part: join() without "
                 "throw_on_early_termination and SyncBatchNorm ('1'): a rank without inputs cannot "
                 "shadow what they exchange in forward"));
}

// A pass that fails is reported to ranks with inputs, which skip the step; the others stay.
TEST(FailuresOfShadowing, OutlastsAPassThatWentWrong) {
  const auto reports = run_world(3, [](const Group& group) {
    Terms net(2);
    DistributedDataParallel ddp(net, {.process_group = group});
    std::string report;
    auto join = ddp.join();
    for (int i = 0; i < count_of({0, 2, 2}, group); ++i) {
      net->zero_grad();
      const bool lacks = i == 0 && group->getRank() == 2;
      try {
        ddp.forward(lacks ? Loss{{0, 1.0}} : Loss{{0, own(group)}, {1, own(group, 10)}}).backward();
        report += net->gradients() + "; ";
      } catch (const UnfinishedReductionError& error) {
        const std::string text = testing::validation_errors_in(error);
        report += text.substr(0, text.find('.')) + "; ";
      }
    }
    join.finish();
    return report;
  });
  const std::string reported =
      "rank 0: has no inputs left; rank 1: all is well; rank 2: lacks 'w1'; 5 5 | 50 50; ";
  EXPECT_EQ(reports, (std::vector<std::string>{"", reported, reported}));
}

TEST(FailuresOfShadowing, EndsWhereARankWithInputsFails) {
  const auto reports = run_world(
      3,
      [](const Group& group) {
        Terms net(1);
        DistributedDataParallel ddp(net, {.process_group = group});
        try {
          auto join = ddp.join();
          for (int i = 0; i < count_of({0, 2, 2}, group); ++i) {
            ddp.forward(Loss{{0, own(group)}}).backward();
            if (group->getRank() == 1) throw std::runtime_error("the disk is full");
          }
          join.finish();
        } catch (const CommunicationError& error) {
          return std::string("reported");
        } catch (const std::exception& error) {
          return std::string(error.what());
        }
        return std::string("unexpected");
      },
      std::chrono::seconds(5));
  EXPECT_EQ(reports, (std::vector<std::string>{"reported", "the disk is full", "reported"}));
}

TEST(FailuresOfShadowing, AreNoEndForAJoinThatIsUpdatedOnTheOthers) {
  const auto reports = run_world(3, [](const Group& group) {
    Terms net(1);
    DistributedDataParallel ddp(net, {.process_group = group});
    std::string report;
    const auto step = [&] {
      net->zero_grad();
      ddp.forward(Loss{{0, own(group)}}).backward();
      report += net->gradients() + "; ";
    };
    auto join = ddp.join({.divide_by_initial_world_size = false});
    step();
    if (group->getRank() == 2) return report;
    const auto smaller = init_process_group(
        {.store = c10::make_intrusive<c10d::PrefixStore>("smaller", group->getStore()),
         .rank = group->getRank(),
         .world_size = 2});
    ddp->update_process_group(smaller);
    for (int i = 0; i < 2 - group->getRank(); ++i) step();
    join.finish();
    return report;
  });
  EXPECT_EQ(reports, (std::vector<std::string>{"6 6; 4.5 4.5; 3 3; ", "6 6; 4.5 4.5; ", "6 6; "}));
}

// A rank in another place than its peers is distinguished, and so are ranks that shadow.
TEST(FailuresOfShadowing, FindsPassesOfDifferentKinds) {
  const auto reports = run_world(3, [](const Group& group) {
    Terms net(1);
    DistributedDataParallel ddp(net, {.process_group = group});
    auto join = ddp.join();
    if (group->getRank() > 0) {
      const at::Tensor loss = ddp.forward(Loss{{0, own(group)}});
      if (group->getRank() == 1) {
        loss.backward();
      } else {
        ddp.forward(Loss{{0, own(group)}});
      }
    }
    join.finish();
    return std::string("accepted");
  });
  EXPECT_EQ(reports,
            same(3,
                 "DisagreementError: ranks disagree on what comes next in a join: rank 0 has "
                 "finish(); rank 1 has a backward pass; rank 2 has a synchronised forward"));
}

// The rank without inputs has shadowed that forward, and waits for the next one.
TEST(FailuresOfShadowing, OutlastsAForwardThatThrewOnAllRanksWithInputs) {
  const auto reports = run_world(2, [](const Group& group) {
    const auto net = std::make_shared<ThrowsBelowZero>();
    DistributedDataParallel ddp(net, {.process_group = group});
    std::string report;
    auto join = ddp.join();
    for (int i = 0; i < count_of({3, 1}, group); ++i) {
      net->zero_grad();
      try {
        ddp.forward((i == 1 ? -1 : 1) * own(group)).sum().backward();
        report += testing::numbers(net->weight.grad()) + "; ";
      } catch (const std::runtime_error& error) {
        report += std::string(error.what()) + "; ";
        // Long enough for the other rank to poll the reported error.
        EXPECT_THROW(group->getStore()->wait({"nothing"}, std::chrono::milliseconds(400)),
                     std::exception);
      }
    }
    join.finish();
    return report + "finished";
  });
  EXPECT_EQ(reports, (std::vector<std::string>{"4.5; a batch that cannot be read; 1.5; finished",
                                               "4.5; finished"}));
}

// A pass after it asks nobody who has inputs: its divisor would be the number of those ranks.
TEST(FailuresOfShadowing, EndsWithAJoinThatIsLeft) {
  const auto reports = run_world(2, [](const Group& group) {
    Terms net(1);
    DistributedDataParallel ddp(net, {.process_group = group});
    { const auto join = ddp.join(); }
    const std::string name = "alone " + std::to_string(group->getRank());
    ddp->update_process_group(init_process_group(
        {.store = c10::make_intrusive<c10d::PrefixStore>(name, group->getStore()),
         .rank = 0,
         .world_size = 1}));
    ddp.forward(Loss{{0, own(group)}}).backward();
    return net->gradients();
  });
  EXPECT_EQ(reports, (std::vector<std::string>{"3 3", "6 6"}));
}

}  // namespace
}  // namespace lockstep
