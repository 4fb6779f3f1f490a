// How training continues after a failure.
#include "ddp/distributed_data_parallel.h"
#include "ddp/errors.h"
#include "ddp/init.h"
#include "tests/ddp/forked_world.h"
#include "tests/ddp/modules.h"

#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/torch.h>

#include <cstdlib>
#include <unistd.h>

// A rank that exits under a sanitizer would look for leaks, for longer than its peers wait.
static bool is_rank_that_exits = false;
extern "C" int __lsan_is_turned_off();
extern "C" int __lsan_is_turned_off() {
  return is_rank_that_exits ? 1 : 0;
}

namespace lockstep {
namespace {

using testing::Group;
using testing::numbers;
using testing::run_world;
using testing::same;
using testing::share;
using testing::Terms;
using Loss = testing::TermsImpl::Loss;

// A peer dies in a step; the others make a group of their own and go on with the same object.
TEST(Recovery, ContinuesWithTheRanksThatLive) {
  const auto reports = run_world(
      3,
      [](const Group& group) {
        Terms net(2);
        DistributedDataParallel ddp(net, {.process_group = group, .bucket_cap_mb = 0.0});
        const double c = 2.0 * (group->getRank() + 1);
        const auto step = [&] {
          net->zero_grad();
          ddp.forward(Loss{{0, c}, {1, 10 * c}}).backward();
          return net->gradients() + "; ";
        };
        step();
        if (group->getRank() == 2) ::_exit(7);
        std::string report;
        try {
          step();
          report = "no error; ";
        } catch (const CommunicationError&) {
          report = "reported; ";
        }
        try {
          ddp->check_reduction_finished();
          report += "finished?; ";
        } catch (const UnfinishedReductionError& error) {
          const std::string sentence = error.what();
          report += sentence.find("an earlier reduction failed") != std::string::npos
                        ? "unfinished; "
                        : sentence;
        }
        const auto smaller = init_process_group(
            {.store = c10::make_intrusive<c10d::PrefixStore>("smaller", group->getStore()),
             .rank = group->getRank(),
             .world_size = 2});
        ddp->update_process_group(smaller);
        ddp->check_reduction_finished();
        for (int i = 0; i < 3; ++i) report += step();
        return report + std::to_string(ddp->logging_data().world_size);
      },
      std::chrono::seconds(5));
  const std::string good = "3 3 | 30 30; ";
  for (const std::size_t rank : {0U, 1U}) {
    EXPECT_EQ(reports[rank], "reported; unfinished; " + good + good + good + "2");
  }
}

// Gloo says only that a connection is closed. In a world of two that is the other rank's.
TEST(Recovery, SaysThatAPeerLeftWhoseProcessEndedBeforeItsObjectWasDestroyed) {
  for (const bool quickly : {false, true}) {
    for (const int world : {2, 3}) {
      const auto reports = run_world(
          world,
          [quickly](const Group& group) {
            Terms net(1);
            DistributedDataParallel ddp(net, {.process_group = group});
            ddp.forward(Loss{{0, 1.0}}).backward();
            is_rank_that_exits = group->getRank() == 1;
            if (is_rank_that_exits) quickly ? std::quick_exit(0) : std::exit(0);
            ddp.forward(Loss{{0, 1.0}}).backward();
            return std::string("finished");
          },
          std::chrono::seconds(5));
      const std::string who = world == 2 ? "rank 1" : "a peer";
      for (int rank = 0; rank < world; ++rank) {
        if (rank == 1) continue;
        const std::string& report = reports[static_cast<std::size_t>(rank)];
        EXPECT_NE(report.find(" ms: " + who +
                              " left: it closed its connection, as a process does that is killed, "
                              "crashes, or calls exit() before its DistributedDataParallel is "
                              "destroyed ("),
                  std::string::npos)
            << report;
        EXPECT_EQ(report.back(), ')') << report;
      }
    }
  }
}

struct BelowZeroThrows : torch::nn::Module {
  at::Tensor weight = register_parameter("weight", torch::ones({1}, at::kDouble));
  at::Tensor forward(double factor) {
    if (factor < 0) throw std::runtime_error("a batch that cannot be read");
    return weight * factor;
  }
};

// All ranks throw in forward, skip the batch, and go on: nobody's next wait ends with it, however
// late a rank comes.
TEST(Recovery, SkipsAForwardThatThrewOnAllRanks) {
  const auto reports = run_world(2, [](const Group& group) {
    const auto net = std::make_shared<BelowZeroThrows>();
    DistributedDataParallel ddp(net, {.process_group = group});
    std::string report;
    for (const double sign : {1.0, -1.0, 1.0, 1.0}) {
      net->zero_grad();
      try {
        // Long enough for the other rank to poll the reported error.
        if (group->getRank() == 0 && sign > 0) {
          EXPECT_THROW(group->getStore()->wait({"nothing"}, std::chrono::milliseconds(400)),
                       std::exception);
        }
        ddp.forward(sign * share(group)).sum().backward();
        report += numbers(net->weight.grad()) + "; ";
      } catch (const Error& error) {
        return std::string(error.what());
      } catch (const std::exception& error) {
        report += std::string(error.what()) + "; ";
      }
    }
    return report;
  });
  EXPECT_EQ(reports, same(2, "3; a batch that cannot be read; 3; 3; "));
}

// One rank throws in forward, skips the batch, and continues: its next pass is none of its peers'.
TEST(Recovery, DoesNotMixBatchesWhereOneRankSkipsOne) {
  const auto reports = run_world(
      2,
      [](const Group& group) {
        const auto net = std::make_shared<BelowZeroThrows>();
        DistributedDataParallel ddp(net, {.process_group = group});
        std::string report;
        for (int step = 0; step < 3; ++step) {
          net->zero_grad();
          const bool throws = step == 1 && group->getRank() == 1;
          try {
            ddp.forward(throws ? -1.0 : step + 1.0).sum().backward();
            report += numbers(net->weight.grad()) + "; ";
          } catch (const Error&) {
            return report + "reported";
          } catch (const std::exception& error) {
            report += "skipped; ";
          }
        }
        return report;
      },
      std::chrono::seconds(3));
  EXPECT_EQ(reports, (std::vector<std::string>{"1; reported", "1; skipped; reported"}));
}

TEST(Recovery, RefusesAModuleThatHasChanged) {
  const auto reports = run_world(2, [](const Group& group) {
    Terms net(2);
    DistributedDataParallel ddp(net, {.process_group = group});
    if (group->getRank() == 1) net->weights[0].set_data(torch::zeros({3}, at::kDouble));
    ddp->update_process_group(group);
    return std::string("accepted");
  });
  EXPECT_EQ(reports,
            same(2,
                 "DisagreementError: rank 1 of 2 cannot take part: parameter 'w0' was converted, "
                 "moved or reshaped after it was wrapped; wrap it again"));
}

}  // namespace
}  // namespace lockstep
