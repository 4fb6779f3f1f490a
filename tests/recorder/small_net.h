// A small network, and three steps of its training.
#pragma once

#include "lockstep/ddp.h"
#include "tests/recorder/trainings_in_cpp.h"

#include <torch/torch.h>

namespace lockstep::testing::models {

struct NetImpl : torch::nn::Module {
  NetImpl()
      : hidden(register_module("hidden", torch::nn::Linear(6, 12))),
        drop(register_module("drop", torch::nn::Dropout(0.25))),
        out(register_module("out", torch::nn::Linear(12, 1))),
        spare(register_module("spare", torch::nn::Linear(12, 1))) {}
  at::Tensor forward(const at::Tensor& input, bool uses_spare = true) {
    const auto middle = drop(torch::relu(hidden(input)));
    return uses_spare ? out(middle) + spare(middle) : out(middle);
  }
  torch::nn::Linear hidden{nullptr};
  torch::nn::Dropout drop{nullptr};
  torch::nn::Linear out{nullptr}, spare{nullptr};
};
TORCH_MODULE(Net);

inline at::Tensor inputs(const Here& here, int step) {
  const auto seed = static_cast<std::uint64_t>(100 * step + here.rank);
  return at::randn({4, 6}, at::detail::createCPUGenerator(seed));
}

// Three steps with SGD.
inline void train(Here& here, DistributedDataParallelOptions options,
                  const std::function<void(DistributedDataParallel<NetImpl>&, int step)>& step,
                  const std::function<void(DistributedDataParallel<NetImpl>&)>& prepare = {}) {
  Net net;
  options.process_group = here.group();
  DistributedDataParallel<NetImpl> ddp(net, options);
  if (prepare) prepare(ddp);
  here.recorder.watch(ddp);
  torch::optim::SGD optimizer(ddp->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  for (int number = 0; number < 3; ++number) {
    optimizer.zero_grad();
    step(ddp, number);
    here.recorder.step(optimizer);
  }
  here.say("model", *net);
}

inline auto backward(Here& here, bool uses_spare = true) {
  return [&here, uses_spare](DistributedDataParallel<NetImpl>& ddp, int step) {
    ddp.forward(inputs(here, step), uses_spare).square().mean().backward();
  };
}

}  // namespace lockstep::testing::models
