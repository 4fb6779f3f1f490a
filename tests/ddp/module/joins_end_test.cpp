// How joins end, what is refused, and what continues after them.
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

using testing::Group;
using testing::kThrowing;
using testing::numbers;
using testing::own;
using testing::run_world;
using testing::same;
using testing::Terms;
using testing::ThrowsBelowZero;
using testing::uneven;
using Loss = testing::TermsImpl::Loss;

TEST(EndsOfJoins, IsRefusedOnAllRanksWhileAnotherIsUnderWay) {
  const auto reports = run_world(2, [](const Group& group) {
    Terms net(1);
    DistributedDataParallel ddp(net, {.process_group = group});
    auto join = ddp.join(kThrowing);
    std::string report;
    try {
      const auto another = ddp.join(kThrowing);
    } catch (const DisagreementError& error) {
      report = error.what();
    }
    ddp.forward(Loss{{0, own(group)}}).backward();
    join.finish();
    return report + "; " + net->gradients();
  });
  EXPECT_EQ(reports, same(2,
                          "ranks 0 and 1 of 2 cannot take part: join() was called while a join of "
                          "this instance is under way; finish() that one first; 4.5 4.5"));
}

TEST(EndsOfJoins, OfARankThatIsElsewhereIsDistinguished) {
  const auto reports = run_world(2, [](const Group& group) {
    Terms net(1);
    DistributedDataParallel ddp(net, {.process_group = group});
    auto join = ddp.join(kThrowing);
    if (group->getRank() == 0) {
      const auto another = ddp.join(kThrowing);
    } else {
      ddp.forward(Loss{{0, 1.0}});
    }
    return std::string("accepted");
  });
  EXPECT_EQ(reports, same(2,
                          "DisagreementError: rank 0 of 2 cannot take part: join() was called "
                          "while a join of this instance is under way; finish() that one first"));
}

TEST(EndsOfJoins, IsFinishedOnce) {
  const auto reports = run_world(2, [](const Group& group) {
    Terms net(1);
    DistributedDataParallel ddp(net, {.process_group = group});
    const auto again = [](Join& join) {
      try {
        join.finish();
        return std::string("finished");
      } catch (const UsageError& error) {
        const std::string text = error.what();
        return text.substr(text.find(": ") + 2);
      }
    };
    auto join = ddp.join(kThrowing);
    std::string report = again(join) + "; " + again(join) + "; ";
    auto moved = std::move(join);
    EXPECT_THROW(join.finish(), UsageError);  // NOLINT(bugprone-use-after-move)
    // Forwards after it are as without a join.
    ddp.forward(Loss{{0, own(group)}}).backward();
    auto next = ddp.join(kThrowing);
    try {
      if (group->getRank() == 0) ddp.forward(Loss{{0, 1.0}});
      next.finish();
    } catch (const UnevenInputsError&) {
      report += again(next);
    }
    return report + "; " + net->gradients();
  });
  EXPECT_EQ(reports, same(2,
                          "finished; finish() was called of a join that is over: it was finished; "
                          "finish() was called of a join that is over: uneven inputs ended it; "
                          "4.5 4.5"));
}

// The final error of a rank, as its peers reported it.
std::string heard_in(const std::exception& error) {
  const std::string text = error.what();
  const auto reported = text.rfind("reported: ");
  return reported == std::string::npos ? text : "received " + text.substr(reported + 10);
}

TEST(EndsOfJoins, ThatIsLeftByAnExceptionEndsThePeersWaits) {
  const auto reports = run_world(3, [](const Group& group) {
    Terms net(1);
    DistributedDataParallel ddp(net, {.process_group = group});
    const auto step = [&] { ddp.forward(Loss{{0, own(group)}}).backward(); };
    std::string report;
    try {
      auto join = ddp.join(kThrowing);
      step();
      if (group->getRank() == 1) throw std::runtime_error("the disk is full");
      step();
      join.finish();
    } catch (const CommunicationError& error) {
      const bool reported =
          heard_in(error).find("an exception left its join, which was not finished") !=
          std::string::npos;
      report = reported ? "reported" : error.what();
    } catch (const std::exception& error) {
      report = error.what();
    }
    try {
      step();
    } catch (const UnfinishedReductionError&) {
      report += "; over";
    }
    ddp->update_process_group(group);
    net->zero_grad();
    step();
    return report + "; " + net->gradients();
  });
  for (std::size_t rank = 0; rank < reports.size(); ++rank) {
    EXPECT_EQ(reports[rank],
              (rank == 1 ? "the disk is full" : "reported") + std::string("; over; 6 6"));
  }
}

// One that all ranks leave is over on all of them, and says so.
TEST(EndsOfJoins, ThatIsLeftIsAnEndUntilTheNextUpdate) {
  const auto reports = run_world(2, [](const Group& group) {
    Terms net(1);
    DistributedDataParallel ddp(net, {.process_group = group});
    { const auto join = ddp.join(kThrowing); }
    std::string report;
    try {
      const auto join = ddp.join(kThrowing);
    } catch (const UnfinishedReductionError& error) {
      const std::string text = error.what();
      report = text.substr(text.find(": ") + 2);
    }
    ddp->update_process_group(group);
    ddp.forward(Loss{{0, own(group)}}).backward();
    return report + "; " + net->gradients();
  });
  EXPECT_EQ(reports, same(2,
                          "an earlier reduction failed (it left its join without finish()); "
                          "update_process_group() begins anew on ranks that live; 4.5 4.5"));
}

// The program's own report of a failure replaces the guard's.
TEST(EndsOfJoins, LeavesTheLastWordToReportFailure) {
  const auto reports = run_world(2, [](const Group& group) {
    Terms net(1);
    DistributedDataParallel ddp(net, {.process_group = group});
    try {
      auto join = ddp.join(kThrowing);
      if (group->getRank() == 1) throw std::runtime_error("the disk is full");
      group->getStore()->wait({"reported"}, std::chrono::seconds(10));
      ddp.forward(Loss{{0, 1.0}});
    } catch (const CommunicationError& error) {
      return heard_in(error);
    } catch (const std::exception& error) {
      ddp->report_failure(error.what());
      group->getStore()->set("reported", std::vector<std::uint8_t>{1});
    }
    return std::string("reported");
  });
  EXPECT_EQ(reports, (std::vector<std::string>{"received the disk is full", "reported"}));
}

TEST(EndsOfJoins, ContinuesWithOtherRanksAfterAnUpdate) {
  const auto reports = run_world(
      3,
      [](const Group& group) {
        Terms net(1);
        DistributedDataParallel ddp(net, {.process_group = group});
        auto join = ddp.join(kThrowing);
        const auto step = [&] { ddp.forward(Loss{{0, own(group)}}).backward(); };
        step();
        std::string report = net->gradients() + "; ";
        if (group->getRank() == 2) {
          join.finish();
          return report + "unexpected";
        }
        const auto smaller = init_process_group(
            {.store = c10::make_intrusive<c10d::PrefixStore>("smaller", group->getStore()),
             .rank = group->getRank(),
             .world_size = 2});
        ddp->update_process_group(smaller);
        net->zero_grad();
        try {
          step();
          report += net->gradients() + "; ";
          if (group->getRank() == 0) step();
          join.finish();
        } catch (const UnevenInputsError& error) {
          report += error.what();
        }
        return report;
      },
      std::chrono::seconds(3));
  for (const std::size_t rank : {0U, 1U})
    EXPECT_EQ(reports[rank], "6 6; 4.5 4.5; " + uneven("rank 1 has", 1, "rank 0 has"));
}

// A rank that leaves a join and continues is distinguished from one that is still in it.
TEST(EndsOfJoins, UnderWayOnSomeRanksAloneIsRefusedInAnUpdate) {
  const auto reports = run_world(2, [](const Group& group) {
    Terms net(1);
    DistributedDataParallel ddp(net, {.process_group = group});
    std::optional<Join> join(ddp.join(kThrowing));
    if (group->getRank() == 1) join.reset();
    ddp->update_process_group(group);
    return std::string("accepted");
  });
  EXPECT_EQ(reports, same(2,
                          "DisagreementError: ranks disagree on the join under way: rank 0 has one "
                          "that throws; rank 1 has none"));
}

// Each has its own; the one whose forward comes first tells before the other sends anything.
TEST(EndsOfJoins, OfOneOfTwoInstancesInALoopIsEnough) {
  const auto reports = run_world(2, [](const Group& group) {
    Terms first(1), second(1);
    DistributedDataParallel one(first, {.process_group = group});
    DistributedDataParallel two(second, {.process_group = group});
    auto join = one.join(kThrowing);
    std::string report;
    const auto step = [&] {
      first->zero_grad();
      second->zero_grad();
      (one.forward(Loss{{0, own(group)}}) + two.forward(Loss{{0, own(group, 10)}})).backward();
      report += first->gradients() + " " + second->gradients() + "; ";
    };
    try {
      for (int i = 0; i < 1 + group->getRank(); ++i) step();
      join.finish();
    } catch (const UnevenInputsError&) {
      report += "reported; ";
    }
    step();
    return report;
  });
  const std::string step = "4.5 4.5 45 45; ";
  EXPECT_EQ(reports, same(2, step + "reported; " + step));
}

// All ranks throw in forward, skip the input, and have no more: nobody takes the sentence of a
// forward that is over for one of this step.
TEST(EndsOfJoins, IsFinishedAfterAForwardThatThrewOnAllRanks) {
  const auto reports = run_world(2, [](const Group& group) {
    const auto net = std::make_shared<ThrowsBelowZero>();
    DistributedDataParallel ddp(net, {.process_group = group});
    auto join = ddp.join(kThrowing);
    std::string report;
    for (const double sign : {1.0, -1.0}) {
      try {
        ddp.forward(sign * own(group)).sum().backward();
        report += numbers(net->weight.grad()) + "; ";
      } catch (const std::runtime_error& error) {
        report += std::string(error.what()) + "; ";
      }
    }
    // Long enough for the other rank to poll the reported error.
    if (group->getRank() == 0) {
      EXPECT_THROW(group->getStore()->wait({"nothing"}, std::chrono::milliseconds(400)),
                   std::exception);
    }
    join.finish();
    return report + "even";
  });
  EXPECT_EQ(reports, same(2, "4.5; a batch that cannot be read; even"));
}

}  // namespace
}  // namespace lockstep
