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

// Running statistics differ by rank between two forwards, and the graph of a forward in training
// holds them without reading them.
TEST(Buffers, OfABatchNormInTrainingMayChangeBetweenTwoForwardsBeforeOneBackward) {
  const auto reports = run_world(2, [](const Group& group) {
    torch::nn::BatchNorm1d net(torch::nn::BatchNorm1dOptions(2));
    DistributedDataParallel ddp(net, {.process_group = group});
    const auto input = torch::arange(6.0).view({3, 2}) * (group->getRank() + 1);
    const auto first = ddp.forward(input);
    const auto second = ddp.forward(input);
    (first.sum() + second.sum()).backward();
    net->eval();  // and the mode in between does not matter, only that of the forward
    return numbers(net->bias.grad());
  });
  EXPECT_EQ(reports, (std::vector<std::string>(2, "6 6")));
}

// PyTorch 2.12 keeps the version and computes 5 x the new value in silence.
TEST(Buffers, WhoseValueAGraphSavedRaiseInItsBackwardIfTheyHaveChanged) {
  struct Scaled : torch::nn::Module {
    at::Tensor weight = register_parameter("weight", torch::ones({1}));
    at::Tensor scale = register_buffer("scale", torch::ones({1}));
    at::Tensor forward() { return weight * scale; }
  };
  for (const bool by_layer : {false, true}) {
    const auto reports = run_world(2, [&](const Group& group) -> std::string {
      const auto own = std::make_shared<Scaled>();
      torch::nn::BatchNorm1d layer(torch::nn::BatchNorm1dOptions(1));
      layer->eval();
      DistributedDataParallel ours(own, {.process_group = group});
      DistributedDataParallel theirs(layer, {.process_group = group});
      const auto forward = [&] {
        return by_layer ? theirs.forward(torch::ones({2, 1})) : ours.forward();
      };
      const auto first = forward();
      const at::Tensor buffer = by_layer ? layer->running_var : own->scale;
      // Behind autograd's back, so that only the broadcast can tell it.
      *buffer.data_ptr<float>() = group->getRank() == 0 ? 1.0F : 5.0F;
      forward();
      first.sum().backward();
      return "accepted";
    });
    EXPECT_NE(reports[1].find("modified by an inplace operation"), std::string::npos) << reports[1];
  }
}

TEST(Buffers, AreSynchronisedInEveryForwardOutsideOfNoSyncWithoutTheLag) {
  const auto reports = run_world(2, [&](const Group& group) {
    Counting net(0.0);
    DistributedDataParallel ddp(net, {.process_group = group, .buffer_sync_lag = false});
    std::string report;
    const auto step = [&] {
      ddp.forward(one(), group->getRank() + 1.0);
      report += numbers(net->named_buffers()["count"] - (group->getRank() + 1)) + " ";
    };
    step();
    {
      const torch::NoGradGuard no_grad;
      step();
      step();  // with the lag this one would be local
    }
    step();
    {
      const auto guard = ddp.no_sync();
      step();  // with the lag this one would still be synchronised
    }
    step();
    return report;
  });
  EXPECT_EQ(reports, (std::vector<std::string>{"0 1 2 3 4 5 ", "0 1 2 3 5 5 "}));
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
