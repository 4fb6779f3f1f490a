// Buffers that forward cannot broadcast, or that a graph has saved.
#include "ddp/module/buffers.h"

#include "ddp/distributed_data_parallel.h"
#include "tests/ddp/forked_world.h"
#include "tests/ddp/modules.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace lockstep {
namespace {

using testing::Counting;
using testing::Group;
using testing::run_world;

at::Tensor one() {
  return torch::ones({1}, at::kDouble);
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

}  // namespace
}  // namespace lockstep
