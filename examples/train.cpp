// Data-parallel training with an installed Lockstep, on made-up data. One process a rank:
//
//   for r in 0 1; do
//     RANK=$r WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 build/train &
//   done; wait
//
// Its argument, if there is one, is the backend; the model stays on the CPU.
#include "lockstep/ddp.h"

#include <torch/torch.h>

#include <cstdint>
#include <exception>
#include <iomanip>
#include <iostream>
#include <limits>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>

namespace {

constexpr std::int64_t kSamples = 1000;
constexpr std::int64_t kGlobalBatch = 40;  // samples a step, over all ranks
constexpr int kEpochs = 5;

struct NetImpl : torch::nn::Module {
  NetImpl() {
    hidden = register_module("hidden", torch::nn::Linear(4, 16));
    out = register_module("out", torch::nn::Linear(16, 1));
  }
  at::Tensor forward(const at::Tensor& input) { return out(torch::tanh(hidden(input))); }
  torch::nn::Linear hidden{nullptr}, out{nullptr};
};
TORCH_MODULE(Net);

// Equal on every rank, which then reads its own share. The target is the sum of four features.
torch::data::datasets::TensorDataset features() {
  auto generator = at::detail::createCPUGenerator(1);
  return torch::data::datasets::TensorDataset(torch::randn({kSamples, 4}, generator));
}

// Equal for equal parameters, and hardly ever for others.
double checksum(const torch::nn::Module& module) {
  double sum = 0;
  int place = 0;
  for (const auto& parameter : module.parameters()) {
    sum += ++place * parameter.detach().to(torch::kFloat64).sum().item<double>();
  }
  return sum;
}

void train(const std::string& backend) {
  // By torchrun, mpirun, srun, by hand or alone.
  const auto group = lockstep::init_process_group({.backend = backend});
  const int rank = group->getRank();
  const int world_size = group->getSize();
  if (kGlobalBatch % world_size != 0) {
    throw std::invalid_argument("a batch of " + std::to_string(kGlobalBatch) +
                                " samples does not divide by " + std::to_string(world_size) +
                                " ranks");
  }

  torch::manual_seed(static_cast<std::uint64_t>(rank));  // whatever the seeds, rank 0's model is it
  Net net;
  lockstep::DistributedDataParallel ddp(net, {.process_group = group});
  const double checksum_before = checksum(*net);

  lockstep::DistributedSampler sampler(kSamples, *group);
  const auto loader = torch::data::make_data_loader(
      features().map(torch::data::transforms::Stack<torch::data::TensorExample>()), sampler,
      torch::data::DataLoaderOptions(static_cast<std::size_t>(kGlobalBatch / world_size)));
  torch::optim::SGD optimizer(ddp->parameters(), torch::optim::SGDOptions(0.05).momentum(0.5));

  std::optional<double> first_loss;
  double last_loss = 0;
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    sampler.set_epoch(epoch);  // holds for the loader's copy too
    for (const auto& batch : *loader) {
      optimizer.zero_grad();
      const auto target = batch.data.sum(1, /*keepdim=*/true);
      const auto loss = torch::mse_loss(ddp.forward(batch.data), target);
      loss.backward();  // gradients are averages over the ranks now
      optimizer.step();
      last_loss = loss.item<double>();  // of this rank's share of the batch
      if (!first_loss) first_loss = last_loss;
    }
  }

  // One write a rank, so that lines of several ranks do not mix.
  std::ostringstream line;
  line << std::setprecision(std::numeric_limits<double>::max_digits10) << "rank " << rank << " of "
       << world_size << ": loss " << *first_loss << " -> " << last_loss << ", checksum "
       << checksum_before << " -> " << checksum(*net) << "\n";
  std::cout << line.str() << std::flush;
}

}  // namespace

int main(int count, char** arguments) {
  try {
    train(count > 1 ? arguments[1] : "");
  } catch (const std::exception& error) {
    lockstep::report_to_launcher(error.what());
    std::cerr << error.what() << "\n";
    return 1;
  }
}
