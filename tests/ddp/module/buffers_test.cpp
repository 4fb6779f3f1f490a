// When forward broadcasts buffers, and what becomes of graphs that have saved them.
#include "ddp/module/buffers.h"

#include "ddp/distributed_data_parallel.h"
#include "ddp/errors.h"
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
using Loss = testing::TermsImpl::Loss;

at::Tensor one() {
  return torch::ones({1}, at::kDouble);
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

}  // namespace
}  // namespace lockstep
