// Checks what init_process_group() decides on machines where NCCL cannot be used, which no GPU
// makes any machine. With GPUs: test_nccl.py.
#include "ddp/comm/split_group.h"
#include "ddp/distributed_data_parallel.h"
#include "ddp/errors.h"
#include "ddp/init.h"
#include "tests/ddp/forked_world.h"
#include "tests/ddp/modules.h"

#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/torch.h>

#include <cstdlib>

namespace lockstep {
namespace {

using testing::Group;
using testing::run_world;
using testing::same;

// A second group of the world, in keys of its own.
Group second_group(const Group& first, InitOptions options) {
  ::setenv("CUDA_VISIBLE_DEVICES", "", 1);
  options.store = c10::make_intrusive<c10d::PrefixStore>("second", first->getStore());
  options.rank = first->getRank();
  options.world_size = first->getSize();
  options.timeout = std::chrono::seconds(20);
  return init_process_group(options);
}

TEST(Backends, AreDecidedAndReportedWithTheReason) {
  const auto reports = run_world(2, [](const Group& group) {
    return backends_of(*second_group(group, {})) + " | " + backends_of(*group);
  });
  EXPECT_EQ(reports[0], reports[1]);
  EXPECT_EQ(reports[0].find("cpu:gloo (no nccl: "), 0u) << reports[0];
  EXPECT_NE(reports[0].find(" | cpu:gloo"), std::string::npos) << reports[0];
}

TEST(Backends, OfAGroupThatIsNotOursAreReadOffIt) {
  const auto reports = run_world(1, [](const Group& group) {
    return backends_of(*make_process_group(group->getBackend(c10::kCPU), group->getStore()));
  });
  EXPECT_EQ(reports[0], "cpu:gloo");
}

TEST(Backends, GlooCarriesTensorsOfBothDevicesWhereItIsAskedFor) {
  const auto reports = run_world(2, [](const Group& group) {
    const auto second = second_group(group, {.backend = "gloo"});
    std::vector<at::Tensor> sum = {at::full({1}, 1.0 + second->getRank())};
    second->allreduce(sum)->wait();
    return backends_of(*second) + " " + testing::numbers(sum[0]) + " " + second->getBackendName();
  });
  EXPECT_EQ(reports, same(2, "cpu:gloo,cuda:gloo 3 gloo"));
}

// c10d's own splitGroup splits Gloo once a device, the second time over the addresses of the first.
TEST(Backends, OneThatCarriesTwoDevicesIsSplitOnceForEachInstance) {
  const auto reports = run_world(3, [](const Group& group) {
    const auto second = second_group(group, {.backend = "gloo"});
    std::string report;
    testing::Terms one(1), two(1), three(1);
    DistributedDataParallel a(one, {.process_group = second});
    DistributedDataParallel b(two, {.process_group = second});
    DistributedDataParallel c(three, {.process_group = second});
    for (auto* ddp : {&a, &b, &c}) {
      ddp->forward(testing::TermsImpl::Loss{{0, 3.0 * second->getRank()}}).backward();
      report += testing::numbers((*ddp)->parameters()[0].grad()) + "; ";
    }
    return report;
  });
  EXPECT_EQ(reports, same(3, "3 3; 3 3; 3 3; "));
}

TEST(Backends, OfASplitGroupHaveATimeoutAndANameOfTheirOwn) {
  const auto reports = run_world(2, [](const Group& group) {
    const auto options_of = [](const Group& of) {
      return of->getBackend(c10::DeviceType::CPU)->getBackendOptions();
    };
    const auto before = options_of(group)->timeout;
    const auto options = options_of(split_group(*group, std::chrono::milliseconds(54321), "half"));
    return std::to_string(options->timeout.count()) + " " + options->group_name +
           (options_of(group)->timeout == before ? "" : ", and the whole group's has changed");
  });
  EXPECT_EQ(reports, same(2, "54321 half"));
}

TEST(Backends, NcclThatCannotBeHadIsOneSentenceOnEveryRank) {
  for (const char* backend : {"nccl", "cpu:gloo,cuda:nccl"}) {
    const auto reports = run_world(3, [&](const Group& group) {
      return backends_of(*second_group(group, {.backend = backend}));
    });
    EXPECT_EQ(reports, same(3, reports[0]));
    EXPECT_EQ(reports[0].find("DisagreementError: rank "), 0u) << reports[0];
    EXPECT_NE(
        reports[0].find(" cannot take part: it is to carry CUDA tensors over nccl, and cannot: "),
        std::string::npos)
        << reports[0];
  }
}

TEST(Backends, WhoNamesAGpuAsksForNccl) {
  const auto reports = run_world(2, [&](const Group& group) {
    return backends_of(*second_group(group, {.device_index = 0}));
  });
  EXPECT_NE(reports[0].find("it is to carry CUDA tensors over nccl"), std::string::npos)
      << reports[0];
}

TEST(Backends, HalfAWorldThatAsksForNcclIsOneSentenceOnEveryRank) {
  const auto reports = run_world(4, [](const Group& group) {
    const bool asks = group->getRank() % 2 == 1;
    return backends_of(*second_group(group, {.backend = asks ? "nccl" : "gloo"}));
  });
  EXPECT_EQ(reports, same(4, reports[0]));
  EXPECT_EQ(reports[0].find("DisagreementError: "), 0u) << reports[0];
  EXPECT_NE(reports[0].find("it is to carry CUDA tensors over nccl, and cannot: "),
            std::string::npos)
      << reports[0];
}

std::string refusal_with(const InitOptions& options) {
  InitOptions all = options;
  all.store = c10::make_intrusive<c10d::HashStore>();
  all.rank = 0;
  all.world_size = 2;  // nobody comes: nothing may be opened before it is refused
  try {
    init_process_group(all);
    return "accepted";
  } catch (const UsageError& error) {
    return error.what();
  }
}

TEST(Backends, WhatCannotBeMeantIsRefusedAtOnce) {
  EXPECT_EQ(refusal_with({.backend = "mpi"}).find("init_process_group: backend is 'mpi', "), 0u);
  EXPECT_NE(refusal_with({.backend = "gloo", .device_index = 1}).find("device_index is given"),
            std::string::npos);
  EXPECT_NE(refusal_with({.ranks_per_device = 0}).find("ranks_per_device is 0"), std::string::npos);
}

}  // namespace
}  // namespace lockstep
