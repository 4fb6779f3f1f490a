// What construction and forward do to parameters and buffers, and what a handle can do.
#include "ddp/buffers.h"
#include "ddp/distributed_data_parallel.h"
#include "ddp/errors.h"
#include "tests/ddp/forked_world.h"
#include "tests/ddp/modules.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <sstream>

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
      broadcast_from_rank_zero(communicator, tensors, "test", {}, cap);
      std::string report;
      for (const at::Tensor& each : tensors) report += numbers(at::real(each)) + " | ";
      return report;
    });
    EXPECT_NE(reports[0].find("1 1 1 |  | 1 | 0 0 |"), std::string::npos) << reports[0];
    EXPECT_NE(reports[0].find("0 2 4 1 3 5"), std::string::npos) << reports[0];
    for (const std::string& report : reports) EXPECT_EQ(report, reports[0]);
  }
}

TEST(Buffers, FollowRankZeroBeforeEachForward) {
  for (const int world : {2, 3}) {
    const auto reports = run_world(world, [](const Group& group) {
      Counting net(1.0);
      DistributedDataParallel ddp(net, {.process_group = group});
      std::string report;
      for (int step = 0; step < 3; ++step) {
        ddp.forward(one(), group->getRank() + 1.0).backward();
        report += net->found + "; ";
      }
      const torch::NoGradGuard no_grad;  // in evaluation too
      net->eval();
      ddp.forward(one(), 10.0);
      return report + net->found;
    });
    // Rank 0 adds 1 each time.
    EXPECT_EQ(reports, same(world, "1 1 | 1 | 1; 2 2 | 2 | 1; 3 3 | 3 | 1; 4 4 | 4 | 1"));
  }
}

// PyTorch's lag: whether a forward synchronises was decided by the forward before it.
TEST(Buffers, AreNotSynchronisedInTheForwardAfterALocalOne) {
  for (const bool by_no_grad : {false, true}) {
    const auto reports = run_world(2, [&](const Group& group) {
      Counting net(0.0);
      DistributedDataParallel ddp(net, {.process_group = group});
      std::string report;
      const auto step = [&] {
        ddp.forward(one(), group->getRank() + 1.0);
        report += numbers(net->named_buffers()["count"] - (group->getRank() + 1)) + " ";
      };
      step();  // synchronised: 0
      if (by_no_grad) {
        const torch::NoGradGuard no_grad;
        step();  // still synchronised: 1
        step();  // local: 2 and 3
      } else {
        const auto guard = ddp.no_sync();
        step();
        step();
      }
      step();  // still local: 3 and 5
      step();  // synchronised: 4
      return report;
    });
    EXPECT_EQ(reports, (std::vector<std::string>{"0 1 2 3 4 ", "0 1 3 5 4 "}));
  }
}

TEST(Buffers, ThatAReplacedByOthersOfTheSameShapeAreTheOnesSynchronised) {
  const auto reports = run_world(2, [](const Group& group) {
    Counting net(0.0);
    DistributedDataParallel ddp(net, {.process_group = group});
    net->named_buffers();
    net->buffers();
    const auto fresh = torch::full({2}, group->getRank() + 5.0, at::kDouble);
    net->named_buffers(false)["average"].set_data(fresh);
    ddp.forward(one(), 1.0);
    return net->found;
  });
  EXPECT_EQ(reports, (std::vector<std::string>(2, "5 5 | 0 | 0")));
}

TEST(Buffers, ThatChangeTheirShapeAreRefused) {
  const auto reports = run_world(2, [](const Group& group) {
    Counting net(0.0);
    DistributedDataParallel ddp(net, {.process_group = group});
    net->named_buffers()["average"].set_data(torch::zeros({3}, at::kDouble));
    ddp.forward(one(), 1.0);
    return std::string("accepted");
  });
  EXPECT_NE(reports[0].find("UsageError: rank 0: buffer 0 was 'average' Double[2]"),
            std::string::npos)
      << reports[0];
  EXPECT_NE(reports[1].find("is 'average' Double[3] now"), std::string::npos) << reports[1];
}

// PyTorch 2.11 raises "modified by an inplace operation" here.
TEST(Buffers, KeepTheirVersionsSoThatTwoForwardsBeforeOneBackwardWork) {
  const auto reports = run_world(2, [](const Group& group) {
    torch::nn::BatchNorm1d net(torch::nn::BatchNorm1dOptions(2));
    DistributedDataParallel ddp(net, {.process_group = group});
    net->eval();  // normalises with its buffers, which autograd then saves
    const auto first = ddp.forward(torch::ones({3, 2}));
    const auto second = ddp.forward(torch::ones({3, 2}));
    (first.sum() + second.sum()).backward();
    return numbers(net->bias.grad());
  });
  EXPECT_EQ(reports, (std::vector<std::string>(2, "6 6")));
}

TEST(Handle, ForwardsWhateverTheModuleTakesAndReturns) {
  struct Odd : torch::nn::Module {
    Odd() { register_parameter("weight", torch::ones({1})); }
    std::unique_ptr<int> forward(std::unique_ptr<int> number, int& counter) {
      ++counter;
      return number;
    }
    void forward(const char*) { ++calls; }
    Odd& forward() { return *this; }
    int calls = 0;
  };
  const auto reports = run_world(1, [](const Group& group) {
    DistributedDataParallel ddp(std::make_shared<Odd>(), {.process_group = group});
    int counter = 0;
    const auto number = ddp.forward(std::make_unique<int>(7), counter);
    ddp.forward("nothing");
    const bool is_itself = &ddp.forward() == ddp->module.get();
    static_assert(std::is_void_v<decltype(ddp.forward("nothing"))>);
    static_assert(std::is_same_v<decltype(ddp.forward()), Odd&>);
    return std::to_string(*number) + std::to_string(counter) + std::to_string(ddp->module->calls) +
           std::to_string(is_itself);
  });
  EXPECT_EQ(reports, (std::vector<std::string>{"7111"}));
}

TEST(Handle, IsAHolderWhoseKeysBeginWithModule) {
  const auto reports = run_world(1, [](const Group& group) {
    Terms net(2, 2, 3.0);
    DistributedDataParallel ddp(net, {.process_group = group});
    DistributedDataParallel<testing::TermsImpl> empty = nullptr;
    const auto copy = ddp;
    static_assert(
        std::is_same_v<decltype(copy), const DistributedDataParallel<testing::TermsImpl>>);
    std::string report = std::to_string(empty.is_empty()) + std::to_string(copy.ptr() == ddp.ptr());
    for (const auto& each : ddp->named_parameters()) report += " " + each.key();
    std::stringstream stream;
    torch::save(ddp, stream);
    net->weights[0].detach().fill_(9.0);
    torch::load(ddp, stream);
    return report + " " + numbers(net->weights[0]);
  });
  EXPECT_EQ(reports, (std::vector<std::string>{"11 module.w0 module.w1 3 3"}));
}

TEST(Handle, CanBeMadeAndDestroyedManyTimesOnOneGroup) {
  const auto reports = run_world(2, [](const Group& group) {
    Terms net(2);
    for (int i = 0; i < 20; ++i) {
      DistributedDataParallel ddp(net, {.process_group = group});
      net->zero_grad();
      ddp.forward(Loss{{0, group->getRank() * 2.0}, {1, 4.0}}).backward();
    }
    const std::string report = net->gradients();
    net->zero_grad();
    net->forward(Loss{{0, 5.0}}).backward();  // nobody listens any more
    return report + "; " + net->gradients();
  });
  EXPECT_EQ(reports, (std::vector<std::string>(2, "1 1 | 4 4; 5 5 | none")));
}

}  // namespace
}  // namespace lockstep
