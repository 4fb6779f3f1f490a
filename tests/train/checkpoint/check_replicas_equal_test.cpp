// Checks the errors of ranks whose replicas differ: from the function, and from a
// DistributedDataParallel that compares without being called.
#include "train/check_replicas_equal.h"

#include "ddp/consistency/equal_values.h"
#include "ddp/distributed_data_parallel.h"
#include "ddp/distributed_sampler.h"
#include "ddp/errors.h"
#include "tests/ddp/forked_world.h"
#include "tests/train/checkpoint/training.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <limits>

namespace lockstep {
namespace {

using testing::Group;
using testing::make_net;

using testing::run_world;
using testing::same;

constexpr int kWorld = 3;

std::string reported(const std::function<void()>& act) {
  try {
    act();
  } catch (const DisagreementError& error) {
    return error.what();
  }
  return "equal";
}

// The sentence of each rank, after `change` on every one.
std::vector<std::string> reports_after(
    const std::function<void(torch::nn::Module&, int rank)>& change, bool with_buffers = true) {
  return run_world(kWorld, [&](const Group& group) {
    auto net = make_net();
    const at::NoGradGuard no_grad;
    for (const auto& each : net->named_parameters()) each.value().fill_(0.5);
    for (const auto& each : net->named_buffers()) each.value().fill_(1);
    change(*net, group->getRank());
    return reported(
        [&] { check_replicas_equal(group, {.model = &*net, .buffers = with_buffers}); });
  });
}

at::Tensor first_parameter(torch::nn::Module& net) {
  return net.named_parameters().front().value();
}

std::string first_name(torch::nn::Module& net) {
  return net.named_parameters().front().key();
}

TEST(CheckReplicasEqual, TheFirstElementThatDiffersIsNamedWithItsValues) {
  const auto reports = reports_after([](torch::nn::Module& net, int rank) {
    if (rank == 1) first_parameter(net).view({-1})[2] = 7;
    if (rank == 2) first_parameter(net).view({-1})[1] = 0.25;
  });
  auto net = make_net();
  const bool is_matrix = first_parameter(*net).dim() == 2;
  EXPECT_EQ(reports,
            same(kWorld, "ranks disagree on element " + std::string(is_matrix ? "[0, 1]" : "[1]") +
                             " of parameter '" + first_name(*net) +
                             "': ranks 0 and 1 have 0.5; rank 2 has 0.25"));
}

TEST(CheckReplicasEqual, RankZeroMayBeTheOneThatDiffers) {
  const auto reports = reports_after([](torch::nn::Module& net, int rank) {
    if (rank == 0) first_parameter(net).view({-1})[0] = 2;
  });
  EXPECT_NE(reports[0].find("rank 0 has 2; ranks 1 and 2 have 0.5"), std::string::npos)
      << reports[0];
  EXPECT_EQ(reports, same(kWorld, reports[0]));
}

TEST(CheckReplicasEqual, BitsCountNotValues) {
  for (const bool is_zero : {true, false}) {
    const auto reports = reports_after([&](torch::nn::Module& net, int rank) {
      auto numbers = first_parameter(net).view({-1});
      numbers[0] = is_zero ? 0.0 : std::numeric_limits<double>::quiet_NaN();
      if (rank == 2 && is_zero) numbers[0] = -0.0;
      if (rank == 2 && !is_zero) numbers.view(at::kInt)[0].bitwise_xor_(1);
    });
    const std::string expected = is_zero ? "ranks 0 and 1 have 0; rank 2 has -0"
                                         : "ranks 0 and 1 have NaN (bits 7fc00000); rank 2 has NaN "
                                           "(bits 7fc00001)";
    EXPECT_NE(reports[0].find(expected), std::string::npos) << reports[0];
    EXPECT_EQ(reports, same(kWorld, reports[0]));
  }
}

TEST(CheckReplicasEqual, BuffersCountUnlessLeftOut) {
  const auto change = [](torch::nn::Module& net, int rank) {
    net.register_buffer("seen", at::full({}, rank, at::kLong));
  };
  EXPECT_EQ(reports_after(change), same(kWorld,
                                        "ranks disagree on buffer 'seen': rank 0 has 0; rank 1 "
                                        "has 1; rank 2 has 2"));
  EXPECT_EQ(reports_after(change, /*with_buffers=*/false), same(kWorld, "equal"));
}

TEST(CheckReplicasEqual, ShapesAreComparedBeforeValues) {
  const auto reports = reports_after([](torch::nn::Module& net, int rank) {
    net.register_buffer("odd", at::zeros({rank == 1 ? 2 : 3}));
  });
  EXPECT_EQ(reports, same(kWorld,
                          "ranks disagree on the shape and dtype of buffer 'odd' of "
                          "check_replicas_equal: ranks 0 and 2 have [3] Float; rank 1 has "
                          "[2] Float"));
}

TEST(CheckReplicasEqual, ASamplersDatasetEpochAndOrderCount) {
  const auto reports = run_world(2, [](const Group& group) {
    const int rank = group->getRank();
    const auto report_of = [&](const DistributedSampler& sampler) {
      return reported([&] { check_replicas_equal(group, {.sampler = &sampler}); }) + "|";
    };
    const auto drawn_from = [&](int first) {
      return DistributedSampler(5, *group, {.order = [first](std::size_t size, at::Generator) {
                                  return torch::arange(first, first + static_cast<int>(size)) % 5;
                                }});
    };
    DistributedSampler alike(5, *group), late(5, *group);
    alike.next(rank == 0 ? 1 : 2);
    late.set_epoch(rank);
    return report_of(alike) + report_of(DistributedSampler(rank == 0 ? 5 : 6, *group)) +
           report_of(late) +
           report_of(DistributedSampler(5, *group, {.seed = rank == 0 ? 1U : 2U})) +
           report_of(drawn_from(3)) + report_of(drawn_from(rank));
  });
  EXPECT_EQ(
      reports,
      same(2,
           "equal|"
           "ranks disagree on the sampler's dataset_size of check_replicas_equal: rank 0 has "
           "5; rank 1 has 6|"
           "ranks disagree on the sampler's epoch of check_replicas_equal: rank 0 has 0; rank "
           "1 has 1|"
           "ranks disagree on the sampler's seed of check_replicas_equal: rank 0 has 1; rank "
           "1 has 2|equal|"
           "ranks disagree on element [0] of the sampler's order: rank 0 has 0; rank 1 has "
           "1|"));
}

TEST(CheckReplicasEqual, NothingToCompareIsRefused) {
  const auto reports = run_world(
      2, [](const Group& group) { return reported([&] { check_replicas_equal(group, {}); }); });
  EXPECT_EQ(reports, same(2,
                          "ranks 0 and 1 of 2 cannot take part: check_replicas_equal: no model, "
                          "optimizer or sampler is given"));
}

TEST(CheckReplicasEqual, AnInstanceLooksInEveryNthSynchronisedForward) {
  const auto reports = run_world(2, [](const Group& group) {
    torch::nn::Linear net(2, 1);
    DistributedDataParallel ddp(net.ptr(), {.process_group = group, .check_replicas_every = 3});
    std::string said;
    for (int forward = 0; forward < 6; ++forward) {
      const at::NoGradGuard no_grad;
      if (forward == 3 && group->getRank() == 1) net->bias.add_(1);
      said += reported([&] {
        const at::AutoGradMode recording(true);
        ddp.forward(torch::ones({1, 2})).sum().backward();
      });
      said += "|";
    }
    return said;
  });
  EXPECT_EQ(reports, same(2, reports[0]));
  EXPECT_EQ(reports[0].substr(0, 30), "equal|equal|equal|equal|equal|") << reports[0];
  EXPECT_NE(reports[0].find("ranks disagree on element [0] of parameter 'bias': rank 0 has"),
            std::string::npos)
      << reports[0];
}

TEST(CheckReplicasEqual, APeriodBelowZeroIsRefused) {
  const auto reports = run_world(2, [](const Group& group) {
    torch::nn::Linear net(2, 1);
    return reported([&] {
      DistributedDataParallel ddp(net.ptr(), {.process_group = group, .check_replicas_every = -1});
    });
  });
  EXPECT_EQ(reports, same(2,
                          "ranks 0 and 1 of 2 cannot take part: check_replicas_every is -1, "
                          "expected at least 0"));
}

TEST(CheckReplicasEqual, ADigestIsThatOfTheBitsInOrder) {
  const auto row = torch::arange(12, at::kFloat).view({3, 4});
  EXPECT_EQ(digest_of(row), digest_of(row.t().contiguous().t()));
  for (int64_t i = 0; i < row.numel(); ++i) {
    auto other = row.clone();
    other.view({-1}).view(at::kInt)[i].bitwise_xor_(1);
    EXPECT_NE(digest_of(row), digest_of(other)) << i;
  }
  EXPECT_NE(digest_of(torch::zeros({3}, at::kByte)), digest_of(torch::zeros({4}, at::kByte)));
  auto swapped = row.clone();
  swapped.view({-1})[0] = 1;
  swapped.view({-1})[1] = 0;
  EXPECT_NE(digest_of(row), digest_of(swapped));
}

}  // namespace
}  // namespace lockstep
