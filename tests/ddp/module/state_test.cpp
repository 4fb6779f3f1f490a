// Checks what construction and forward do to parameters and buffers, and the operations of a
// handle.
#include "ddp/distributed_data_parallel.h"
#include "ddp/module/buffers.h"
#include "tests/ddp/forked_world.h"
#include "tests/ddp/modules.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace lockstep {
namespace {

using testing::Counting;
using testing::Group;
using testing::numbers;
using testing::run_world;
using testing::same;
using testing::Terms;
using Loss = testing::TermsImpl::Loss;

at::Tensor one() {
  return torch::ones({1}, at::kDouble);
}

TEST(InitialState, IsRankZerosWhateverTheSeeds) {
  for (const int world : {1, 2, 3}) {
    const auto reports = run_world(world, [](const Group& group) {
      torch::manual_seed(100 + static_cast<uint64_t>(group->getRank()));
      torch::nn::Sequential net(torch::nn::Linear(3, 4), torch::nn::BatchNorm1d(4));
      net->push_back(torch::nn::Linear(4, 2));
      net[0]->as<torch::nn::Linear>()->weight.set_requires_grad(false);
      for (const at::Tensor& buffer : net->buffers()) buffer.fill_(group->getRank() + 1);
      DistributedDataParallel ddp(net, {.process_group = group});
      std::string report;
      for (const at::Tensor& each : net->parameters()) report += numbers(each) + " | ";
      for (const at::Tensor& each : net->buffers()) report += numbers(each) + " | ";
      return report;
    });
    EXPECT_GT(reports[0].size(), 100U) << reports[0];
    for (const std::string& report : reports) EXPECT_EQ(report, reports[0]);
    EXPECT_NE(reports[0].find("1 1 1 1 |"), std::string::npos) << "rank 0's buffers are kept";
  }
}

TEST(InitialState, IsLeftAloneWithoutInitSync) {
  const auto reports = run_world(2, [](const Group& group) {
    Terms net(1, 2, group->getRank() + 1.0);
    Counting counting(group->getRank() + 1.0);
    DistributedDataParallel ddp(net, {.process_group = group, .init_sync = false});
    DistributedDataParallel other(counting, {.process_group = group, .init_sync = false});
    return numbers(net->weights[0]) + " " + counting->state();
  });
  EXPECT_EQ(reports, (std::vector<std::string>{"1 1 1 1 | 1 | 1", "2 2 2 2 | 2 | 1"}));
}

TEST(InitialState, HasBuffersEvenWhenForwardDoesNotSynchroniseThem) {
  const auto reports = run_world(2, [](const Group& group) {
    Counting net(group->getRank() * 5.0);
    DistributedDataParallel ddp(net, {.process_group = group, .forward_sync_buffers = false});
    std::string report = net->state();
    for (int step = 0; step < 2; ++step) ddp.forward(one(), group->getRank() + 1.0).backward();
    return report + "; " + net->state();
  });
  EXPECT_EQ(reports,
            (std::vector<std::string>{"0 0 | 0 | 0; 2 2 | 2 | 0", "0 0 | 0 | 0; 4 4 | 4 | 0"}));
}

TEST(InitialState, TravelsInChunksOfAnySize) {
  for (const std::int64_t cap : {1, 17, 1000}) {
    const auto reports = run_world(3, [&](const Group& group) {
      Communicator communicator(group, std::nullopt);
      std::vector<at::Tensor> tensors;
      for (const auto dtype : {at::kDouble, at::kBool, at::kShort, at::kComplexFloat, at::kLong}) {
        for (const std::int64_t size : {3, 0, 1, 2}) {
          const double value = group->getRank() == 0 ? static_cast<double>(size % 2) : 7.0;
          tensors.push_back(torch::full({size}, value, torch::dtype(dtype)));
        }
      }
      tensors.push_back(torch::arange(6.0).view({3, 2}).t() + group->getRank());
      broadcast_from(0, communicator, tensors, "test",
                     {.broadcast_cap_mb = static_cast<double>(cap) / (1 << 20)});
      std::string report;
      for (const at::Tensor& each : tensors) report += numbers(at::real(each)) + " | ";
      return report;
    });
    EXPECT_NE(reports[0].find("1 1 1 |  | 1 | 0 0 |"), std::string::npos) << reports[0];
    EXPECT_NE(reports[0].find("0 2 4 1 3 5"), std::string::npos) << reports[0];
    for (const std::string& report : reports) EXPECT_EQ(report, reports[0]);
  }
}

TEST(InitialState, TravelsInMessagesThatAreFullAtTheirCap) {
  const auto reports = run_world(2, [&](const Group& group) {
    std::string report;
    for (const int cap : {0, 8, 9, 16, 17, 24, 25, 32}) {
      Communicator communicator(group, std::nullopt);
      const std::vector<at::Tensor> tensors(4, torch::zeros({1}, at::kDouble));
      broadcast_from(0, communicator, tensors, "test",
                     {.broadcast_cap_mb = static_cast<double>(cap) / (1 << 20)});
      report += std::to_string(communicator.issued_count()) + " ";
    }
    return report;
  });
  EXPECT_EQ(reports, same(2, "4 4 2 2 2 2 1 1 "));
}

TEST(InitialState, LeavesWhatIsIgnoredAlone) {
  struct Parts : torch::nn::Module {
    explicit Parts(double value) {
      for (const char* const name : {"a", "b"}) {
        register_parameter(name, torch::full({1}, value, at::kDouble));
      }
      register_buffer("c", torch::full({1}, value, at::kDouble));
      register_buffer("d", torch::full({1}, value, at::kDouble));
      register_module("inner", std::make_shared<testing::TermsImpl>(2, 1, value));
    }
    at::Tensor forward(double factor) {
      at::Tensor sum = torch::zeros({1}, at::kDouble);
      for (const auto& each : parameters()) sum = sum + each * factor;
      for (const auto& each : buffers()) each.add_(factor);
      return sum;
    }
  };
  const auto reports = run_world(2, [](const Group& group) {
    const double own = group->getRank() + 1.0;
    const auto net = std::make_shared<Parts>(own);
    DistributedDataParallel ddp(
        net, {.process_group = group, .parameters_and_buffers_to_ignore = {"a", "d", "inner.w1"}});
    ddp.forward(2 * own).backward();
    ddp.forward(2 * own).backward();
    std::string report;
    for (const auto& each : net->named_parameters()) {
      report +=
          each.key() + " " + numbers(each.value()) + " " + numbers(each.value().grad()) + "; ";
    }
    for (const auto& each : net->named_buffers()) {
      report += each.key() + " " + numbers(each.value()) + "; ";
    }
    return report;
  });
  EXPECT_EQ(reports,
            (std::vector<std::string>{"a 1 4; b 1 6; inner.w0 1 6; inner.w1 1 4; c 5; d 5; ",
                                      "a 2 8; b 1 6; inner.w0 1 6; inner.w1 2 8; c 7; d 10; "}));
}

}  // namespace
}  // namespace lockstep
