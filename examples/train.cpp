// Data-parallel training of a LibTorch model on random data. One process a rank:
//
//   for r in 0 1; do
//     RANK=$r WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 build/release/examples/train &
//   done; wait
#include "lockstep/ddp.h"

#include <torch/torch.h>

#include <iostream>

namespace {

struct NetImpl : torch::nn::Module {
  NetImpl() {
    hidden = register_module("hidden", torch::nn::Linear(4, 16));
    out = register_module("out", torch::nn::Linear(16, 1));
  }
  at::Tensor forward(const at::Tensor& input) { return out(torch::relu(hidden(input))); }
  torch::nn::Linear hidden{nullptr}, out{nullptr};
};
TORCH_MODULE(Net);

// y = the sum of four features.
torch::data::datasets::TensorDataset features(int64_t samples) {
  auto generator = at::detail::createCPUGenerator(1);
  return torch::data::datasets::TensorDataset(torch::randn({samples, 4}, generator));
}

}  // namespace

int train_example() {
  const auto group = lockstep::init_process_group();
  torch::manual_seed(static_cast<uint64_t>(group->getRank()));  // construction makes copies equal
  Net net;
  lockstep::DistributedDataParallel ddp(net, {.process_group = group});

  constexpr int64_t kSamples = 1000;
  lockstep::DistributedSampler sampler(kSamples, *group);
  const auto loader = torch::data::make_data_loader(
      features(kSamples).map(torch::data::transforms::Stack<torch::data::TensorExample>()), sampler,
      torch::data::DataLoaderOptions(50));
  torch::optim::SGD optimizer(ddp->parameters(), 0.05);

  for (int epoch = 0; epoch < 5; ++epoch) {
    sampler.set_epoch(epoch);  // holds for the loader's copy too
    double last_loss = 0;
    for (const auto& batch : *loader) {
      optimizer.zero_grad();
      const auto target = batch.data.sum(1, /*keepdim=*/true);
      const auto loss = torch::mse_loss(ddp.forward(batch.data), target);
      loss.backward();
      optimizer.step();
      last_loss = loss.item<double>();
    }
    std::cout << "rank " << group->getRank() << " epoch " << epoch << " loss " << last_loss << "\n";
  }
  return 0;
}
