// Several instances on one group, and groups of every kind.
#include "ddp/distributed_data_parallel.h"
#include "ddp/errors.h"
#include "ddp/init.h"
#include "tests/ddp/forked_world.h"
#include "tests/ddp/modules.h"

#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/torch.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>
#include <unistd.h>

namespace lockstep {
namespace {

using testing::Group;
using testing::run_world;
using testing::same;
using testing::share;
using testing::Terms;
using Loss = testing::TermsImpl::Loss;

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
  EXPECT_TRUE(tells(0, "no answer from a peer") || tells(0, "of instance 1 on its group"))
      << reports[0];
}

// One fails, and the exception unwinds the other, in which a peer waits.
TEST(Instances, ThatAreUnwoundReportWhichOtherOneFailed) {
  const auto reports = run_world(2, [](const Group& group) {
    Terms one(1), two(1);
    DistributedDataParallel a(one,
                              {.process_group = group, .timeout = std::chrono::milliseconds(500)});
    DistributedDataParallel b(two, {.process_group = group});
    const auto loss_of_a = a.forward(Loss{{0, 1.0}});
    const auto loss_of_b = b.forward(Loss{{0, 1.0}});
    (group->getRank() == 0 ? loss_of_b : loss_of_a).backward();
    return std::string("finished");
  });
  EXPECT_NE(reports[0].find("rank 1 reported: it left its training with an exception: rank 1: "
                            "all-reduce of gradient bucket 0 (collective 2 of this instance)"),
            std::string::npos)
      << reports[0];
}

// The names of threads that a broken pipe would end the process in; this one aside.
std::set<std::string> threads_that_end_with_a_pipe() {
  std::set<std::string> names;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    if (task.path().filename() == std::to_string(::getpid())) continue;
    std::ifstream status(task.path() / "status");
    std::string line, name;
    while (std::getline(status, line)) {
      if (line.starts_with("Name:")) name = line.substr(6);
      if (!line.starts_with("SigBlk:")) continue;
      const auto blocked = std::stoull(line.substr(8), nullptr, 16);
      if ((blocked >> (SIGPIPE - 1)) % 2 == 0) names.insert(name);
    }
  }
  return names;
}

// A part of a group has threads of its own, which write to peers that may be dead.
TEST(Instances, HaveNoThreadThatABrokenPipeWouldEndTheProcessIn) {
  const auto reports = run_world(2, [&](const Group& group) {
    Terms one(1), two(1);
    const auto before = threads_that_end_with_a_pipe();
    DistributedDataParallel a(one, {.process_group = group});
    DistributedDataParallel b(two, {.process_group = group});
    std::string report = std::to_string(before.size()) + " before;";
    for (const std::string& each : threads_that_end_with_a_pipe()) report += " " + each;
    return report;
  });
  EXPECT_EQ(reports, same(2, "0 before;"));
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

// With names used again a later part found the addresses that an earlier one had left in the store.
TEST(Instances, CanComeAndGoOnOneGroup) {
  const auto reports = run_world(2, [](const Group& group) {
    Terms kept(1), net(1);
    DistributedDataParallel first(kept, {.process_group = group});
    std::string report;
    for (int life = 0; life < 6; ++life) {
      DistributedDataParallel second(net, {.process_group = group});
      net->zero_grad();
      second.forward(Loss{{0, share(group)}}).backward();
      report = net->gradients();
    }
    return report;
  });
  EXPECT_EQ(reports, same(2, "3 3"));
}

// PyTorch's Gloo writes a part's ranks over the whole's, and reads beyond their end the next time:
// Note [Splitting Gloo].
TEST(Groups, KeepTheirRanksHoweverOftenTheyAreSplit) {
  const auto reports = run_world(4, [](const Group& group) {
    const auto ranks_of = [](const Group& of) {
      const auto options = of->getBackend(c10::DeviceType::CPU)->getBackendOptions();
      std::string text;
      for (const auto rank : options->global_ranks_in_group) text += std::to_string(rank);
      return text;
    };
    const auto part_of = [&](const Group& whole, const std::vector<int>& ranks) -> Group {
      std::string name = "ranks";
      for (const int rank : ranks) name += " " + std::to_string(rank);
      return whole->splitGroup(ranks, std::nullopt, std::nullopt, name, std::nullopt);
    };
    const Group first = part_of(group, {0, 1});
    const Group second = part_of(group, {1, 2, 3});
    std::string report = ranks_of(group);
    if (first) report += " " + ranks_of(first);
    if (second) {
      const Group last = part_of(second, {1, 2});
      report += " " + ranks_of(second) + (last ? " " + ranks_of(last) : "");
    }
    Terms net(1);
    DistributedDataParallel one(net, {.process_group = group});
    DistributedDataParallel two(net, {.process_group = group});
    two.forward(Loss{{0, share(group)}}).backward();
    return report + " " + net->gradients() + " " + ranks_of(group);
  });
  const std::string end = " 3.5 3.5 0123";
  EXPECT_EQ(reports, (std::vector<std::string>{"0123 01" + end, "0123 01 123" + end,
                                               "0123 123 23" + end, "0123 123 23" + end}));
}

// A rank that destroyed its part at once closed the connection on which a peer was still waiting
// for the other ranks of it.
TEST(Groups, CanBeDestroyedAsSoonAsTheyAreSplit) {
  const auto reports = run_world(4, [](const Group& group) {
    for (int life = 0; life < 30; ++life) {
      group->splitGroup({0, 1, 2, 3}, std::nullopt, std::nullopt, "part " + std::to_string(life),
                        std::nullopt);
    }
    return std::string("connected");
  });
  EXPECT_EQ(reports, same(4, "connected"));
}

TEST(Groups, CanBeMadeAndDestroyedTwentyTimesOnOneStore) {
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
    for (int i = 0; i < 20; ++i) {
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

}  // namespace
}  // namespace lockstep
