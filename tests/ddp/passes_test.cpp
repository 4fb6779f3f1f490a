// Which backward passes are reduced, on which threads and groups, and how training goes on after a
// failure.
#include "ddp/distributed_data_parallel.h"
#include "ddp/errors.h"
#include "ddp/fixed_signature.h"
#include "ddp/init.h"
#include "tests/ddp/forked_world.h"
#include "tests/ddp/modules.h"

#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/torch.h>

#include <fstream>
#include <thread>
#include <unistd.h>

namespace lockstep {
namespace {

using testing::Group;
using testing::numbers;
using testing::run_world;
using testing::same;
using testing::Terms;
using Loss = testing::TermsImpl::Loss;

double share(const Group& group) {
  return group->getRank() == 0 ? 2.0 : 4.0;  // 3 on average
}

TEST(Passes, OfOneGraphTwiceAreBothReduced) {
  const auto reports = run_world(2, [](const Group& group) {
    Terms net(1);
    DistributedDataParallel ddp(net, {.process_group = group});
    const auto loss = ddp.forward(Loss{{0, share(group)}});
    loss.backward({}, true);
    std::string report = net->gradients();
    loss.backward();
    return report + "; " + net->gradients();
  });
  EXPECT_EQ(reports, same(2, "3 3; 6 6"));
}

// PyTorch: the first of the two consumes what the synchronised forward armed, the second is local.
TEST(Passes, OfALocalForwardStayLocalWhateverForwardsComeBetween) {
  const auto reports = run_world(2, [](const Group& group) {
    Terms net(1);
    DistributedDataParallel ddp(net, {.process_group = group});
    at::Tensor local;
    {
      const auto guard = ddp.no_sync();
      local = ddp.forward(Loss{{0, share(group)}});
    }
    const auto synchronised = ddp.forward(Loss{{0, 10 * share(group)}});
    local.backward();
    std::string report = net->gradients();
    synchronised.backward();
    return report + "; " + net->gradients();
  });
  EXPECT_EQ(reports, (std::vector<std::string>{"2 2; 33 33", "4 4; 33 33"}));
}

TEST(Passes, ThroughALocalAndASynchronisedGraphAreReduced) {
  for (const bool local_first : {false, true}) {
    const auto reports = run_world(2, [&](const Group& group) {
      Terms net(2);
      DistributedDataParallel ddp(net, {.process_group = group});
      at::Tensor local;
      {
        const auto guard = ddp.no_sync();
        local = ddp.forward(Loss{{0, share(group)}});
      }
      const auto synchronised = ddp.forward(Loss{{1, 10 * share(group)}});
      (local_first ? local + synchronised : synchronised + local).backward();
      return net->gradients();
    });
    EXPECT_EQ(reports, same(2, "3 3 | 30 30"));
  }
}

// The module keeps what its loss is made of; the pass goes through no output.
TEST(Passes, ThatGoThroughNoOutputAreReducedIfTheLastForwardWasSynchronised) {
  struct Keeping : torch::nn::Module {
    at::Tensor weight = register_parameter("weight", torch::ones({1}, at::kDouble));
    at::Tensor kept;
    double forward(double factor) {
      kept = weight * factor;
      return 0.5;
    }
  };
  const auto reports = run_world(2, [](const Group& group) {
    const auto net = std::make_shared<Keeping>();
    DistributedDataParallel ddp(net, {.process_group = group});
    std::string report;
    for (int step = 0; step < 3; ++step) {
      net->zero_grad();
      ddp.forward(share(group));
      net->kept.backward();
      report += numbers(net->weight.grad()) + " ";
    }
    const auto guard = ddp.no_sync();
    net->zero_grad();
    ddp.forward(share(group));
    net->kept.backward();
    return report + numbers(net->weight.grad());
  });
  EXPECT_EQ(reports, (std::vector<std::string>{"3 3 3 2", "3 3 3 4"}));
}

TEST(Passes, OfAutogradGradAreNoneOfOurs) {
  const auto reports = run_world(2, [](const Group& group) {
    Terms net(1);
    DistributedDataParallel ddp(net, {.process_group = group});
    std::string report;
    for (int step = 0; step < 2; ++step) {
      net->zero_grad();
      const auto loss = ddp.forward(Loss{{0, share(group)}});
      const auto alone = torch::autograd::grad({loss}, {net->weights[0]}, {}, true);
      report += numbers(alone[0]) + (net->weights[0].grad().defined() ? " defined" : " none");
      loss.backward();
      report += " " + net->gradients() + "; ";
    }
    return report;
  });
  EXPECT_EQ(reports, (std::vector<std::string>{"2 2 none 3 3; 2 2 none 3 3; ",
                                               "4 4 none 3 3; 4 4 none 3 3; "}));
}

TEST(Passes, MayRunOnAnyThread) {
  const auto reports = run_world(2, [](const Group& group) {
    Terms net(3);
    DistributedDataParallel ddp(net, {.process_group = group, .bucket_cap_mb = 0.0});
    std::string report;
    for (int step = 0; step < 3; ++step) {
      net->zero_grad();
      const auto loss = ddp.forward(Loss{{0, share(group)}, {1, 10 * share(group)}, {2, 0.0}});
      std::thread([&] { loss.backward(); }).join();
      report += net->gradients() + "; ";
    }
    return report;
  });
  const std::string step = "3 3 | 30 30 | 0 0; ";
  EXPECT_EQ(reports, same(2, step + step + step));
}

// The second instance has a part of the group of its own: in one pass, or on two threads, their
// buckets leave in an order that depends on the rank. PyTorch adds up the gradients of different
// models here, in silence.
TEST(Instances, OnOneGroupMayRunTheirPassesAtOnceInAnyOrder) {
  for (const bool on_threads : {false, true}) {
    const auto reports = run_world(3, [&](const Group& group) {
      Terms one(2), two(2);
      DistributedDataParallel a(one, {.process_group = group, .bucket_cap_mb = 0.0});
      DistributedDataParallel b(two, {.process_group = group, .bucket_cap_mb = 0.0});
      std::string report;
      for (int step = 0; step < 3; ++step) {
        one->zero_grad();
        two->zero_grad();
        const double c = 3.0 * group->getRank();
        std::vector<at::Tensor> losses = {a.forward(Loss{{0, c}, {1, 10 * c}}),
                                          b.forward(Loss{{0, 100 * c}, {1, 1000 * c}})};
        if (group->getRank() == 1) std::swap(losses[0], losses[1]);
        if (on_threads) {
          std::thread other([&] { losses[0].backward(); });
          losses[1].backward();
          other.join();
        } else {
          (losses[0] + losses[1]).backward();
        }
        report += one->gradients() + " || " + two->gradients() + "; ";
      }
      return report;
    });
    const std::string step = "3 3 | 30 30 || 300 300 | 3000 3000; ";
    EXPECT_EQ(reports, same(3, step + step + step));
  }
}

// A backward pass waits for its peers, so two of them in another order on each rank cannot end; but
// they end at the deadline and say which waited for which.
TEST(Instances, ThatWaitForEachOtherSayWhichOfThemWaits) {
  const auto reports = run_world(
      2,
      [&](const Group& group) {
        Terms one(1), two(1);
        DistributedDataParallel a(one, {.process_group = group});
        DistributedDataParallel b(two, {.process_group = group});
        std::vector<at::Tensor> losses = {a.forward(Loss{{0, 1.0}}), b.forward(Loss{{0, 1.0}})};
        if (group->getRank() == 1) std::swap(losses[0], losses[1]);
        losses[0].backward();
        losses[1].backward();
        return std::string("finished");
      },
      std::chrono::seconds(1));
  const auto tells = [&](std::size_t rank, const std::string& part) {
    return reports[rank].find(part) != std::string::npos;
  };
  EXPECT_TRUE(tells(0, "rank 0: all-reduce of gradient bucket 0 (")) << reports[0];
  EXPECT_TRUE(tells(1, "rank 1: all-reduce of gradient bucket 0 of instance 1 on its group ("))
      << reports[1];
  EXPECT_TRUE(tells(0, "no answer from a peer") || tells(0, "of instance 1 on its group"));
}

// The first instance's pass lacks a gradient; the other's averages are not lost by it.
TEST(Instances, InOnePassFinishThoughAnotherDoesNot) {
  const auto reports = run_world(2, [](const Group& group) {
    Terms one(2), two(1);
    DistributedDataParallel a(one, {.process_group = group});
    DistributedDataParallel b(two, {.process_group = group});
    std::string report;
    for (const bool lacks : {true, false}) {
      one->zero_grad();
      two->zero_grad();
      Loss loss = {{0, share(group)}};
      if (!lacks) loss.push_back({1, share(group)});
      try {
        (a.forward(loss) + b.forward(Loss{{0, 10 * share(group)}})).backward();
      } catch (const UnfinishedReductionError&) {
        report += "told ";
      }
      report += two->gradients() + "; ";
    }
    return report + one->gradients();
  });
  EXPECT_EQ(reports, same(2, "told 30 30; 30 30; 3 3 | 3 3"));
}

TEST(Instances, AreCountedAlikeOnAllRanks) {
  const auto reports = run_world(2, [](const Group& group) {
    Terms net(1);
    std::optional<DistributedDataParallel<testing::TermsImpl>> kept;
    kept.emplace(net, DistributedDataParallelOptions{.process_group = group});
    if (group->getRank() == 1) kept.reset();
    DistributedDataParallel next(net, {.process_group = group});
    return std::string("accepted");
  });
  EXPECT_EQ(reports, same(2,
                          "DisagreementError: ranks disagree on the number of "
                          "DistributedDataParallel objects that live on the group: rank 0 has 1; "
                          "rank 1 has 0"));
}

TEST(Groups, ThatDoNotHoldRankZeroHaveTheirOwnSourceAndDivisor) {
  const auto reports = run_world(4, [](const Group& group) {
    const std::vector<int> ranks =
        group->getRank() == 0 ? std::vector<int>{0} : std::vector<int>{1, 2, 3};
    const auto part = group->splitGroup(ranks, std::nullopt, std::nullopt,
                                        "part of " + std::to_string(ranks.front()), std::nullopt);
    Terms net(1, 2, group->getRank() * 1.0);
    DistributedDataParallel ddp(net, {.process_group = part});
    std::string report = numbers(net->weights[0]) + "; ";
    for (int step = 0; step < 2; ++step) {
      net->zero_grad();
      ddp.forward(Loss{{0, 3.0 * group->getRank()}}).backward();
      report += net->gradients() + "; ";
    }
    return report;
  });
  EXPECT_EQ(reports, (std::vector<std::string>{"0 0; 0 0; 0 0; ", "1 1; 6 6; 6 6; ",
                                               "1 1; 6 6; 6 6; ", "1 1; 6 6; 6 6; "}));
}

TEST(Groups, CanBeMadeAndDestroyedAHundredTimesOnOneStore) {
  const auto reports = run_world(2, [](const Group& group) {
    const auto threads = [] {
      int count = 0;
      std::ifstream status("/proc/self/status");
      for (std::string line; std::getline(status, line);) {
        if (line.starts_with("Threads:")) count = std::stoi(line.substr(8));
      }
      return count;
    };
    std::string report;
    int threads_after_first = 0;
    for (int i = 0; i < 100; ++i) {
      const auto own = init_process_group({.store = c10::make_intrusive<c10d::PrefixStore>(
                                               "life " + std::to_string(i), group->getStore()),
                                           .rank = group->getRank(),
                                           .world_size = group->getSize()});
      Terms net(2);
      DistributedDataParallel ddp(net, {.process_group = own});
      DistributedDataParallel second(net, {.process_group = own});
      second.forward(Loss{{0, share(group)}, {1, 1.0}}).backward();
      report = net->gradients();
      if (i == 0) threads_after_first = threads();
    }
    const int more = threads() - threads_after_first;
    return report + (more <= 0 ? ", no thread left" : ", threads left: " + std::to_string(more));
  });
  EXPECT_EQ(reports, same(2, "3 3 | 1 1, no thread left"));
}

// A peer dies in a step; the others make a group of their own and go on with the same object.
TEST(Recovery, GoesOnWithTheRanksThatLive) {
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
          report = "no complaint; ";
        } catch (const CommunicationError&) {
          report = "told; ";
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
    EXPECT_EQ(reports[rank], "told; unfinished; " + good + good + good + "2");
  }
}

TEST(Recovery, MayWrapTheModuleAnew) {
  const auto reports = run_world(2, [](const Group& group) {
    Terms net(2);
    std::string report;
    for (int life = 0; life < 3; ++life) {
      DistributedDataParallel ddp(net, {.process_group = group, .bucket_cap_mb = 0.0});
      net->zero_grad();
      ddp.forward(Loss{{0, share(group)}, {1, share(group)}}).backward();
      report += net->gradients() + "; ";
      net->weights[0].register_hook([life](const at::Tensor& gradient) -> at::Tensor {
        if (life == 0) throw std::runtime_error("a user's mistake");
        return gradient;
      });
      try {
        ddp.forward(Loss{{0, 1.0}, {1, 1.0}}).backward();
      } catch (const std::exception&) {
        net->weights[0].remove_hook(0);
        report += "thrown; ";
      }
    }
    return report;
  });
  EXPECT_EQ(reports, same(2, "3 3 | 3 3; thrown; 3 3 | 3 3; 3 3 | 3 3; "));
}

TEST(Recovery, RemovesItsHooks) {
  const auto reports = run_world(2, [](const Group& group) {
    Terms net(1);
    DistributedDataParallel ddp(net, {.process_group = group});
    const auto loss = ddp.forward(Loss{{0, share(group)}});
    ddp->remove_autograd_hooks();
    loss.backward();
    std::string report = net->gradients() + "; ";
    try {
      ddp.forward(Loss{{0, 1.0}});
    } catch (const UsageError& error) {
      report += error.what();
    }
    ddp->update_process_group(group);
    net->zero_grad();
    ddp.forward(Loss{{0, share(group)}}).backward();
    return report + "; " + net->gradients();
  });
  const std::string refused = "remove_autograd_hooks() was called; wrap the module again; 3 3";
  EXPECT_EQ(reports,
            (std::vector<std::string>{"2 2; rank 0: " + refused, "4 4; rank 1: " + refused}));
}

TEST(Logging, TellsWhatTheObjectIsAndWhatItHasDone) {
  const auto reports = run_world(2, [](const Group& group) {
    Terms net(3);
    DistributedDataParallel ddp(
        net, {.process_group = group, .bucket_cap_mb = 0.0, .find_unused_parameters = true});
    LoggingData data = ddp->logging_data();
    std::string report = std::to_string(data.world_size) + " " + std::to_string(data.rank) + " " +
                         data.backend_name + " " + std::to_string(data.num_parameter_tensors) +
                         " " + std::to_string(data.total_parameter_size_bytes) + " " +
                         c10::Join(",", data.dtypes) + " " + c10::Join(",", data.bucket_sizes) +
                         " " + std::to_string(data.iteration) + "; ";
    ddp->set_runtime_logging_sample_rate(5);
    for (int step = 0; step < 16; ++step) ddp.forward(Loss{{0, 1.0}, {2, 1.0}}).backward();
    data = ddp->logging_data();
    report += std::to_string(data.iteration) + " " + std::to_string(data.timed_iterations) + " " +
              std::to_string(data.unused_parameter_size) + " " +
              std::to_string(data.num_buckets_reduced) + " " +
              std::to_string(data.has_rebuilt_buckets) + " " +
              c10::Join(",", data.prev_iteration_grad_ready_order_indices) + "; ";
    const bool are_times = data.avg_forward_compute_time.count() > 0 &&
                           data.avg_backward_compute_time.count() > 0 &&
                           data.avg_backward_comm_time.count() > 0;
    report += are_times ? "timed; " : "not timed; ";
    try {
      ddp->set_runtime_logging_sample_rate(0);
    } catch (const UsageError& error) {
      report += error.what();
    }
    return report;
  });
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(reports[static_cast<std::size_t>(rank)],
              "2 " + std::to_string(rank) +
                  " gloo 3 48 Double 16,16,16 0; 16 12 16 3 0 2,0; timed; the sample rate of the "
                  "runtime logging is 0, expected at least 1");
  }
}

TEST(Handle, GoesIntoASequentialWithOneSignature) {
  const auto reports = run_world(2, [](const Group& group) {
    torch::nn::Linear net(torch::nn::LinearOptions(2, 1).bias(false));
    DistributedDataParallel ddp(net, {.process_group = group});
    torch::nn::Sequential all(fixed_signature<at::Tensor(at::Tensor)>(ddp), torch::nn::Flatten());
    std::string report;
    for (int step = 0; step < 2; ++step) {
      net->zero_grad();
      all->forward(torch::full({1, 2}, share(group))).sum().backward();
      report += numbers(net->weight.grad()) + "; ";
    }
    return report + all->named_parameters().keys().front();
  });
  EXPECT_EQ(reports, same(2, "3 3; 3 3; 0.module.module.weight"));
}

// Averages of equal gradients are these gradients, and a factor of 2^k goes through exactly.
TEST(Averages, AreLinearAndKeepWhatIsEqual) {
  const auto reports = run_world(4, [](const Group& group) {
    torch::manual_seed(1);
    torch::nn::Linear net(33, 7);
    DistributedDataParallel ddp(net, {.process_group = group});
    const auto gradient_of = [&](const at::Tensor& input, double factor) {
      net->zero_grad();
      (ddp.forward(input).pow(2).sum() * factor).backward();
      return net->weight.grad().clone();
    };
    torch::manual_seed(2);
    const auto equal_input = torch::rand({5, 33});
    net->zero_grad();
    net->forward(equal_input).pow(2).sum().backward();
    const at::Tensor alone = net->weight.grad().clone();
    std::string report = gradient_of(equal_input, 1).equal(alone) ? "kept " : "changed ";
    torch::manual_seed(10 + static_cast<std::uint64_t>(group->getRank()));
    const auto own_input = torch::rand({5, 33});
    const at::Tensor once = gradient_of(own_input, 1);
    report += gradient_of(own_input, 1024).equal(once * 1024) ? "linear" : "not linear";
    return report;
  });
  EXPECT_EQ(reports, same(4, "kept linear"));
}

// One rank's NaN reaches every rank, and no other element.
TEST(Averages, CarryOneRanksNanToAllAndOnlyInItsPlace) {
  for (const bool views : {false, true}) {
    const auto reports = run_world(3, [&](const Group& group) {
      Terms net(2, 3);
      DistributedDataParallel ddp(net, {.process_group = group, .gradient_as_bucket_view = views});
      std::string report;
      for (int step = 0; step < 2; ++step) {
        net->zero_grad();
        const auto loss = ddp.forward(Loss{{0, 3.0}, {1, 6.0}});
        const auto hook = net->weights[1].register_hook([&](const at::Tensor& gradient) {
          at::Tensor odd = gradient.clone();
          if (group->getRank() == 2) odd[1] = std::nan("");
          return odd;
        });
        loss.backward();
        net->weights[1].remove_hook(hook);
        for (const at::Tensor& weight : net->weights) {
          report += numbers(at::nan_to_num(weight.grad(), -1.0)) + " ";
        }
      }
      return report;
    });
    EXPECT_EQ(reports, same(3, "3 3 3 6 -1 6 3 3 3 6 -1 6 "));
  }
}

}  // namespace
}  // namespace lockstep
