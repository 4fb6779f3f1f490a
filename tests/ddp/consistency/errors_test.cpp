// Everything that is refused or fails, and that every rank says so in the same words.
#include "ddp/errors.h"

#include "ddp/distributed_data_parallel.h"
#include "tests/ddp/forked_world.h"
#include "tests/ddp/modules.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <unistd.h>

namespace lockstep {
namespace {

using testing::Group;
using testing::run_world;
using testing::same;
using testing::Terms;
using Loss = testing::TermsImpl::Loss;

// Covers what no case of replicas.different_models_are_refused has.
TEST(Obstacles, OfOneRankAreRaisedOnEveryRank) {
  struct Obstacle {
    DistributedDataParallelOptions options;
    at::ScalarType dtype;
    std::string sentence;
  };
  const std::vector<Obstacle> obstacles = {
      {{.bucket_cap_mb_list = {1.0, std::nan("")}},
       at::kDouble,
       "a cap in bucket_cap_mb_list is nan, expected 0 to 1e9"},
      {{.param_to_hook_all_reduce = "weight"},
       at::kDouble,
       "delay_all_reduce_named_params and param_to_hook_all_reduce belong together, and one of "
       "them "
       "is not given"},
      {{},
       at::kFloat8_e5m2,
       "parameter 'weight' has dtype Float8_e5m2; gradients of Float, Double, Half, BFloat16, "
       "ComplexFloat and ComplexDouble are averaged"}};
  struct Weight : torch::nn::Module {
    explicit Weight(at::ScalarType dtype) {
      register_parameter("weight", torch::zeros({4, 2}, torch::dtype(dtype)));
    }
    at::Tensor forward() { return named_parameters()["weight"].sum(); }
  };
  for (const Obstacle& each : obstacles) {
    for (int odd_rank = 0; odd_rank < 3; ++odd_rank) {
      const auto reports = run_world(3, [&](const Group& group) {
        const bool is_odd = group->getRank() == odd_rank;
        DistributedDataParallelOptions options;
        if (is_odd) options = each.options;
        options.process_group = group;
        DistributedDataParallel ddp(std::make_shared<Weight>(is_odd ? each.dtype : at::kDouble),
                                    options);
        return std::string("constructed");
      });
      EXPECT_EQ(reports, same(3, "DisagreementError: rank " + std::to_string(odd_rank) +
                                     " of 3 cannot take part: " + each.sentence));
    }
  }
}

TEST(Obstacles, OfAllRanksAreRaisedInAWorldOfAnySize) {
  for (const int world : {1, 2, 3}) {
    const auto reports = run_world(world, [](const Group& group) {
      Terms net(2);
      for (const at::Tensor& weight : net->weights) weight.set_requires_grad(false);
      DistributedDataParallel ddp(net, {.process_group = group});
      return std::string("constructed");
    });
    for (const std::string& report : reports) {
      EXPECT_EQ(report, reports[0]);
      EXPECT_NE(report.find("the module has no parameter that requires a gradient"),
                std::string::npos)
          << report;
    }
  }
}

TEST(Obstacles, WithoutAModuleOrAGroupAreUsageErrors) {
  EXPECT_THROW(DistributedDataParallel(std::make_shared<testing::TermsImpl>(1),
                                       DistributedDataParallelOptions{}),
               UsageError);
  EXPECT_THROW(DistributedDataParallel(std::shared_ptr<testing::TermsImpl>(),
                                       DistributedDataParallelOptions{}),
               UsageError);
}

// The exception unwinds what is of the training; its peers' waits end long before the timeout.
TEST(FailedRank, ThatLeavesItsTrainingWithAnExceptionEndsItsPeersWaits) {
  const auto reports = run_world(
      3,
      [](const Group& group) {
        const auto store = group->getStore();
        const auto start = std::chrono::steady_clock::now();
        const bool fails = group->getRank() == 1;
        std::string report = "finished";
        try {
          Terms net(1);
          DistributedDataParallel ddp(net, {.process_group = group});
          ddp.forward(Loss{{0, 1.0}}).backward();
          if (fails) throw std::runtime_error("out of paper");
          ddp.forward(Loss{{0, 1.0}}).backward();
        } catch (const std::exception& error) {
          report = first_line(error);
        }
        // Its sockets live on until its peers have the error: closing them would report it, too.
        if (fails) {
          store->wait({"reported 0", "reported 2"}, std::chrono::seconds(15));
        } else {
          store->set("reported " + std::to_string(group->getRank()), "1");
        }
        const bool in_time = std::chrono::steady_clock::now() - start < std::chrono::seconds(10);
        return report + (in_time ? "" : ", late");
      },
      std::chrono::seconds(20));
  for (const std::size_t rank : {0U, 2U}) {
    EXPECT_NE(reports[rank].find("ms: rank 1 reported: it left its training with an exception"),
              std::string::npos)
        << reports[rank];
    EXPECT_EQ(reports[rank].find("late"), std::string::npos) << reports[rank];
  }
}

// Each rank alone may be the one that dies, at any of the places where its peers will wait.
TEST(DeadRank, IsACommunicationErrorOnItsPeersAndNotAHang) {
  for (const std::string place : {"before construction", "before forward", "before backward"}) {
    for (int dead = 0; dead < 3; ++dead) {
      const auto reports = run_world(
          3,
          [&](const Group& group) {
            const auto here = [&](const std::string& now) {
              if (place == now && group->getRank() == dead) ::_exit(7);
            };
            torch::nn::BatchNorm1d net(2);
            here("before construction");
            DistributedDataParallel ddp(net, {.process_group = group});
            here("before forward");
            auto loss = ddp.forward(torch::ones({2, 2})).sum();
            here("before backward");
            loss.backward();
            return std::string("finished");
          },
          std::chrono::seconds(3));
      for (int rank = 0; rank < 3; ++rank) {
        const std::string& report = reports[static_cast<std::size_t>(rank)];
        if (rank == dead) {
          EXPECT_EQ(report, "died: exit 7");
        } else if (place != "before forward" || report != "finished") {
          EXPECT_EQ(report.find("CommunicationError: rank " + std::to_string(rank) + ": "), 0U)
              << place << ", rank " << dead << " dead: " << report;
        }
      }
    }
  }
}

TEST(SilentRank, IsACommunicationErrorAtTheDeadlineThatSaysWhatWasWaitedFor) {
  const auto reports = run_world(
      2,
      [](const Group& group) {
        Terms net(1);
        DistributedDataParallel ddp(
            net, {.process_group = group, .timeout = std::chrono::milliseconds(300)});
        const auto loss = ddp.forward(Loss{{0, 1.0}});
        if (group->getRank() == 1) {
          char byte = 0;
          int never[2];
          if (::pipe(never) != 0) return std::string("no pipe");
          ::alarm(4);
          return std::to_string(::read(never[0], &byte, 1));
        }
        try {
          loss.backward();
        } catch (const CommunicationError& error) {
          const bool waited = error.waited() >= std::chrono::milliseconds(300);
          return std::to_string(error.rank()) + ", " + error.operation() + ", " +
                 std::to_string(error.sequence_number()) + ", " + (waited ? "waited" : "early") +
                 std::string(error.what()).substr(std::string(error.what()).find(": no answer"));
        }
        return std::string("finished");
      },
      std::chrono::seconds(20));
  EXPECT_EQ(reports[0],
            "0, all-reduce of gradient bucket 0, 2, waited: no answer from a peer within the "
            "timeout of 300 ms (the option timeout)");
  EXPECT_EQ(reports[1], "died: signal 14");
}

TEST(SilentRank, HasOneSentenceAlsoWhereTheDeadlineOfGlooPassesFirst) {
  const auto reports = run_world(2, [](const Group& group) {
    Terms net(1);
    DistributedDataParallel ddp(net, {.process_group = group});
    const auto loss = ddp.forward(Loss{{0, 1.0}});
    group->getBackend(c10::DeviceType::CPU)->setTimeout(std::chrono::milliseconds(300));
    if (group->getRank() == 1) {
      // The other rank reports when its deadline has passed.
      group->getStore()->wait({"deadline has passed"}, std::chrono::seconds(20));
      return std::string("silent");
    }
    std::string report = "finished";
    try {
      loss.backward();
    } catch (const CommunicationError& error) {
      const std::string text = error.what();
      report = text.substr(text.rfind(" ms: ") + 5);
    }
    group->getStore()->set("deadline has passed", std::vector<std::uint8_t>{'1'});
    return report;
  });
  EXPECT_EQ(
      reports,
      (std::vector<std::string>{
          "no answer from a peer within the timeout of 300 ms (InitOptions::timeout)", "silent"}));
}

TEST(Obstacles, OfAModuleThatIsNullAreOneSentenceOnEveryRank) {
  for (const bool is_holder : {false, true}) {
    for (const int world : {1, 2, 3}) {
      const auto reports = run_world(world, [&](const Group& group) {
        Terms net = nullptr;
        if (group->getRank() != world - 1) net = Terms(1);
        const auto construct = [&] {
          if (is_holder) {
            DistributedDataParallel ddp(net, {.process_group = group});
          } else {
            DistributedDataParallel ddp(net ? net.ptr() : nullptr, {.process_group = group});
          }
        };
        std::string report = "constructed";
        try {
          construct();
        } catch (const DisagreementError& error) {
          report = error.what();
        }
        DistributedDataParallel ddp(Terms(1), {.process_group = group});
        return report;
      });
      const std::string who = "rank " + std::to_string(world - 1) + " of " + std::to_string(world);
      EXPECT_EQ(reports, same(world, who + " cannot take part: the module is null"));
    }
  }
}

}  // namespace
}  // namespace lockstep
