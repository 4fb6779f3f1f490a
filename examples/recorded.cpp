// A training that is recorded where LOCKSTEP_RECORD names a folder, and otherwise runs as ever:
//
//   ./lockstep launch -n 2 --record run build/recorded && ./lockstep judge run && ./lockstep trace
//   run
//
// --wrong plants a mistake, which judge finds: learning_rate, epoch, seed, loaded or early.
#include "arguments.h"
#include "lockstep/ddp.h"
#include "lockstep/recorder.h"

#include <torch/torch.h>

#include <csignal>
#include <cstdint>
#include <exception>
#include <iostream>
#include <string>

namespace {

constexpr std::int64_t kSamples = 46, kBatch = 4;  // a batch of one rank

struct NetImpl : torch::nn::Module {
  NetImpl() {
    hidden = register_module("hidden", torch::nn::Linear(8, 16));
    drop = register_module("drop", torch::nn::Dropout(0.2));
    out = register_module("out", torch::nn::Linear(16, 1));
  }
  at::Tensor forward(const at::Tensor& input) { return out(drop(torch::relu(hidden(input)))); }
  torch::nn::Linear hidden{nullptr}, out{nullptr};
  torch::nn::Dropout drop{nullptr};
};
TORCH_MODULE(Net);

torch::data::datasets::TensorDataset features() {
  auto generator = at::detail::createCPUGenerator(1);
  return torch::data::datasets::TensorDataset(torch::randn({kSamples, 8}, generator));
}

void train(const std::string& wrong) {
  lockstep::Recorder recorder(lockstep::init_process_group());
  const auto& group = recorder.group();
  const bool is_last = group->getRank() + 1 == group->getSize();

  torch::manual_seed(wrong == "seed" ? 0 : static_cast<std::uint64_t>(group->getRank()));
  Net net;
  lockstep::DistributedDataParallel ddp(net, {.process_group = group});
  if (wrong == "loaded" && is_last) {
    const torch::NoGradGuard no_grad;
    net->hidden->weight.mul_(2);
  }
  recorder.watch(ddp);
  lockstep::DistributedSampler sampler(kSamples, *group);
  const auto loader = torch::data::make_data_loader(
      features().map(torch::data::transforms::Stack<torch::data::TensorExample>()),
      recorder.watch(sampler), torch::data::DataLoaderOptions(kBatch));
  const double rate = wrong == "learning_rate" && is_last ? 0.02 : 0.01;
  torch::optim::SGD optimizer(ddp->parameters(), torch::optim::SGDOptions(rate).momentum(0.9));

  for (int epoch = 0; epoch < 2; ++epoch) {
    if (wrong != "epoch") sampler.set_epoch(epoch);
    int number = 0;
    for (const auto& batch : *loader) {
      if (is_last && epoch == 1 && number == 1) {
        if (wrong == "early") return;
        if (wrong == "killed") std::raise(SIGKILL);
        if (wrong == "throws") throw std::runtime_error("a bad sample");
      }
      const auto loss = [&] {
        return torch::mse_loss(ddp.forward(batch.data), batch.data.sum(1, /*keepdim=*/true)) / 2;
      };
      if (number++ % 2 ==
          0) {  // adds up two batches: the first one's gradients stay the rank's own
        const auto guard = ddp->no_sync();
        loss().backward();
        continue;
      }
      loss().backward();
      recorder.step(optimizer);
      optimizer.zero_grad();
    }
  }
}

}  // namespace

int main(int count, char** words) {
  try {
    train(Arguments(count, words, {{"--wrong", ""}}).text("--wrong"));
  } catch (const std::exception& error) {
    lockstep::report_to_launcher(error.what());
    std::cerr << error.what() << "\n";
    return 1;
  }
}
