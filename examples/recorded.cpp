// A training that is recorded where LOCKSTEP_RECORD names a folder, and otherwise runs as ever. It
// adds up the gradients of two batches for each update, and evaluates each sample once.
//
//   ./lockstep launch -n 2 --record run build/recorded
//   ./lockstep judge run && ./lockstep trace run
//
// --uneven 1 gives the last rank a batch fewer, in a join, and the optimizer no momentum, which
// would differ after it.
//
// --wrong plants a usual mistake, which judge names. On the last rank alone:
//   loaded         parameters change after they were wrapped
//   learning_rate  another one
//   dataset        a dataset with more samples
//   early, fewer   leaves in the middle of the second epoch; one update before its peers
//   throws, killed
// On all ranks:
//   bare           the forward of the module itself, not of its DistributedDataParallel
//   epoch          set_epoch is forgotten
//   shuffle        a sampler that does not know the ranks
//   seed           one for the dropout of all ranks
//   optimizer      a second one for parameters of the first
//   evaluation     an average over the samples of a sampler that repeats some
// On rank 0 alone:
//   collective     one that its peers never call
#include "arguments.h"
#include "lockstep/ddp.h"
#include "lockstep/recorder.h"

#include <torch/torch.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <exception>
#include <iostream>
#include <optional>
#include <string>

namespace {

constexpr std::int64_t kSamples = 46, kEvaluated = 45, kBatch = 4;  // a batch of one rank
constexpr int kEpochs = 2;

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

using Features = torch::data::datasets::TensorDataset;

Features features(std::int64_t samples) {
  auto generator = at::detail::createCPUGenerator(1);
  return Features(torch::randn({samples, 8}, generator));
}

template <class Sampler>
auto loader_of(const Features& data, const Sampler& sampler) {
  return torch::data::make_data_loader(
      Features(data).map(torch::data::transforms::Stack<torch::data::TensorExample>()), sampler,
      torch::data::DataLoaderOptions(kBatch));
}

// The target is the sum of the features.
at::Tensor loss_of(const at::Tensor& output, const at::Tensor& input) {
  return torch::mse_loss(output, input.sum(1, /*keepdim=*/true));
}

// The loss over all samples, of which each rank computes its own.
double evaluated(Net& net, lockstep::Recorder& recorder, bool pads) {
  const torch::NoGradGuard no_grad;
  const auto& group = recorder.group();
  const auto data = features(kEvaluated);
  const auto sampler = recorder.watch(
      lockstep::DistributedSampler(kEvaluated, *group, {.shuffle = false, .pad = pads}));
  const auto sums = torch::zeros(2, torch::kFloat64);  // of losses, and the number of samples
  const auto loader = loader_of(data, sampler);
  net->eval();
  for (const auto& batch : *loader) {
    const auto count = batch.data.size(0);
    sums[0] += loss_of(net->forward(batch.data), batch.data) * count;
    sums[1] += count;
  }
  net->train();
  lockstep::all_reduce(group, sums, lockstep::ReduceOp::SUM, {.name = "evaluated loss"});
  return (sums[0] / sums[1]).item<double>();
}

void train(const std::string& wrong, bool uneven) {
  lockstep::Recorder recorder(lockstep::init_process_group());
  const auto& group = recorder.group();
  const bool is_last = group->getRank() + 1 == group->getSize();
  const auto of_last = [&](const char* mistake) { return is_last && wrong == mistake; };

  torch::manual_seed(wrong == "seed" ? 0 : static_cast<std::uint64_t>(group->getRank()));
  Net net;
  lockstep::DistributedDataParallel ddp(net, {.process_group = group});
  if (of_last("loaded")) {
    const torch::NoGradGuard no_grad;
    net->hidden->weight.mul_(2);
  }
  recorder.watch(ddp);
  const double rate = of_last("learning_rate") ? 0.02 : 0.01;
  torch::optim::SGD optimizer(ddp->parameters(),
                              torch::optim::SGDOptions(rate).momentum(uneven ? 0 : 0.9));
  torch::optim::SGD second(net->out->parameters(), 0.01);

  auto data = features(kSamples + (of_last("dataset") ? 4 : 0));
  lockstep::DistributedSampler sampler(*data.size(), *group);
  const auto batches = static_cast<std::int64_t>((sampler.size() + kBatch - 1) / kBatch);

  // Returns false where the rank leaves.
  const auto run_epoch = [&](auto& loader, int epoch) {
    std::int64_t number = 0;
    auto loss_sum = torch::zeros({});
    std::optional<decltype(recorder.join(ddp))> join;
    if (uneven) join.emplace(recorder.join(ddp));
    for (const auto& batch : loader) {
      if (uneven && is_last && number + 1 == batches) break;
      if (epoch == 1 && number == 1) {
        if (of_last("early")) return false;
        if (of_last("killed")) std::raise(SIGKILL);
        if (of_last("throws")) throw std::runtime_error("a bad sample");
        if (wrong == "collective" && group->getRank() == 0) {
          lockstep::all_reduce(group, torch::ones(1), lockstep::ReduceOp::SUM,
                               {.name = "loss", .timeout = std::chrono::seconds(2)});
        }
      }
      if (of_last("fewer") && epoch + 1 == kEpochs && number + 1 == batches) return false;
      const auto backward = [&] {
        const auto loss = loss_of(
            wrong == "bare" ? net->forward(batch.data) : ddp.forward(batch.data), batch.data);
        (loss / 2).backward();
        loss_sum += loss.detach();
      };
      if (number++ % 2 == 0) {  // the first batch's gradients stay the rank's own
        const auto guard = ddp->no_sync();
        backward();
        continue;
      }
      backward();
      recorder.step(optimizer);
      if (wrong == "optimizer") recorder.step(second);
      optimizer.zero_grad();
    }
    if (join) join->finish();
    loss_sum /= static_cast<double>(number);
    lockstep::all_reduce(group, loss_sum, lockstep::ReduceOp::AVG, {.name = "loss"});
    lockstep::print_rank_0(group, "epoch ", epoch, ": loss ", loss_sum.item<double>());
    return true;
  };

  const auto run_epochs = [&](const auto& loader) {
    for (int epoch = 0; epoch < kEpochs; ++epoch) {
      if (wrong != "epoch") sampler.set_epoch(epoch);  // holds for the loader's copy too
      if (!run_epoch(*loader, epoch)) return false;
    }
    return true;
  };
  const bool is_whole =
      wrong == "shuffle"
          ? run_epochs(loader_of(
                data, recorder.watch(torch::data::samplers::RandomSampler(*data.size()), data)))
          : run_epochs(loader_of(data, recorder.watch(sampler)));
  if (!is_whole) return;
  const double loss = evaluated(net, recorder, wrong == "evaluation");
  lockstep::print_rank_0(group, "evaluated: loss ", loss);
}

}  // namespace

int main(int count, char** words) {
  try {
    const Arguments arguments(count, words, {{"--wrong", ""}, {"--uneven", "0"}});
    train(arguments.text("--wrong"), arguments.number("--uneven") != 0);
  } catch (const std::exception& error) {
    lockstep::report_to_launcher(error.what());
    std::cerr << error.what() << "\n";
    return 1;
  }
}
