// A convolutional network on CIFAR-10, with synchronised batch normalisation, a sampler, and a
// checkpoint after every epoch from which training continues.
//
//   lockstep launch -n 4 cifar10 --data cifar-10-batches-bin --epochs 10 --checkpoint cifar10.pt
//
// Every --log-steps steps it shows the loss. With --exact 1 a training that was resumed has the
// bits of one that was never stopped, for any number of ranks. With --augment 0 no image is
// mirrored, and 1, 2 and 4 ranks train one model, up to rounding. With --sync-batchnorm 0 each rank
// normalises over its own images. Under `launch --record FOLDER` the training is recorded, for
// `lockstep judge FOLDER`. Without the data: cifar10 --data FOLDER --make 200 writes made-up files
// of 200 images each.
#include "../arguments.h"
#include "../training.h"
#include "data.h"
#include "lockstep/ddp.h"
#include "lockstep/recorder.h"

#include <torch/torch.h>

#include <chrono>
#include <iostream>

namespace {

struct NetImpl : torch::nn::Module {
  NetImpl() {
    conv1 =
        register_module("conv1", torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 16, 3).padding(1)));
    norm1 = register_module("norm1", lockstep::BatchNorm2d(16));
    conv2 =
        register_module("conv2", torch::nn::Conv2d(torch::nn::Conv2dOptions(16, 32, 3).padding(1)));
    norm2 = register_module("norm2", lockstep::BatchNorm2d(32));
    hidden = register_module("hidden", torch::nn::Linear(32 * 8 * 8, 64));
    out = register_module("out", torch::nn::Linear(64, 10));
  }

  // [N, 3, 32, 32] -> [N, 10]
  at::Tensor forward(const at::Tensor& images) {
    auto x = torch::max_pool2d(torch::relu(norm1(conv1(images))), 2);
    x = torch::max_pool2d(torch::relu(norm2(conv2(x))), 2);
    return out(torch::relu(hidden(x.flatten(1))));
  }

  torch::nn::Conv2d conv1{nullptr}, conv2{nullptr};
  lockstep::BatchNorm2d norm1{nullptr}, norm2{nullptr};
  torch::nn::Linear hidden{nullptr}, out{nullptr};
};
TORCH_MODULE(Net);

using Sampler = lockstep::RecordedSampler<lockstep::DistributedSampler>;

auto loader_of(const Cifar10& images, const Sampler& sampler, std::int64_t batch) {
  return torch::data::make_data_loader(Cifar10(images).map(torch::data::transforms::Stack<>()),
                                       sampler, static_cast<std::size_t>(batch));
}

// Half of the images are mirrored. Each rank's default generator decides, which the checkpoint
// keeps.
at::Tensor augmented(const at::Tensor& images) {
  const auto is_mirrored = torch::rand({images.size(0), 1, 1, 1}) < 0.5;
  return torch::where(is_mirrored, images.flip(3), images);
}

// The share of test images that the model has right. Each is looked at once, by one rank.
double accuracy(Net& net, const Cifar10& images, lockstep::Recorder& recorder, std::int64_t batch) {
  const torch::NoGradGuard no_gradients;
  const auto& group = recorder.group();
  net->eval();
  const Sampler sampler = recorder.watch(
      lockstep::DistributedSampler(*images.size(), *group, {.shuffle = false, .pad = false}));
  const auto counts = torch::zeros(2, torch::kInt64);  // right, and all
  const auto loader = loader_of(images, sampler, batch);
  for (const auto& each : *loader) {
    // The module itself: ranks run different numbers of batches, and nothing is to be synchronised.
    counts[0] += net->forward(each.data).argmax(1).eq(each.target).sum();
    counts[1] += each.target.size(0);
  }
  net->train();
  lockstep::all_reduce(group, counts, lockstep::ReduceOp::SUM, {.name = "right answers"});
  return counts[0].item<double>() / counts[1].item<double>();
}

void train(const Arguments& arguments) {
  lockstep::Recorder recorder(lockstep::init_process_group());
  const auto& group = recorder.group();
  const std::int64_t world_size = group->getSize(), global_batch = arguments.number("--batch");
  if (global_batch == 0 || global_batch % world_size != 0) {
    throw std::invalid_argument("--batch " + std::to_string(global_batch) + " does not divide by " +
                                std::to_string(world_size) + " ranks");
  }
  const std::int64_t batch = global_batch / world_size;
  const Cifar10 images(arguments.text("--data"), true),
      test_images(arguments.text("--data"), false);

  torch::manual_seed(static_cast<std::uint64_t>(group->getRank()));  // mirrors differ between ranks
  Net net;
  if (arguments.number("--sync-batchnorm") != 0) lockstep::convert_sync_batchnorm(net, group);
  // Sums of three ranks and more round by their places in a bucket, and buckets are rebuilt after
  // the first pass of a process, unless parameters may be unused.
  lockstep::DistributedDataParallel ddp(
      net, {.process_group = group, .find_unused_parameters = arguments.number("--exact") != 0});
  recorder.watch(ddp);
  Sampler sampler =
      recorder.watch(lockstep::DistributedSampler(*images.size(), *group, {.drop_last = true}));
  if (sampler.size() == 0) {
    throw std::invalid_argument(std::to_string(*images.size()) + " images are too few for " +
                                std::to_string(world_size) + " ranks");
  }
  torch::optim::SGD optimizer(ddp->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));

  std::int64_t epoch = 0, step = 0;
  const lockstep::Checkpoint checkpoint{
      .model = &*net,
      .optimizer = &optimizer,
      .sampler = &sampler,
      .epoch = &epoch,
      .step = &step,
      .generators = {torch::globalContext().defaultGenerator(torch::kCPU)}};
  const std::string& path = arguments.text("--checkpoint");
  if (is_seen_by_any_rank(group, path)) {
    lockstep::load_checkpoint(path, group, checkpoint);
    lockstep::print_rank_0(group, "continues after epoch ", epoch, " and ", step, " steps");
  }

  const bool augments = arguments.number("--augment") != 0;
  const auto samples = static_cast<std::int64_t>(sampler.size());
  LossLog log(group, (samples + batch - 1) / batch, arguments.number("--log-steps"));
  while (epoch < arguments.number("--epochs")) {
    sampler.set_epoch(epoch);
    const auto start = std::chrono::steady_clock::now();
    std::int64_t batches = 0;
    const auto loader = loader_of(images, sampler, batch);
    for (const auto& each : *loader) {
      optimizer.zero_grad();
      const auto input = augments ? augmented(each.data) : each.data;
      const auto loss = torch::cross_entropy_loss(ddp.forward(input), each.target);
      loss.backward();
      recorder.step(optimizer);
      log.add(epoch + 1, loss);
      ++batches, ++step;
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    const double loss = log.end_epoch();
    ++epoch;
    lockstep::print_rank_0(
        group, "epoch ", epoch, ": loss ", loss, ", accuracy ",
        accuracy(net, test_images, recorder, batch), ", ",
        static_cast<std::int64_t>(static_cast<double>(batches * global_batch) / seconds.count()),
        " images/s");
    if (!path.empty()) lockstep::save_checkpoint(path, group, checkpoint);
  }
}

}  // namespace

int main(int count, char** words) {
  try {
    const Arguments arguments(count, words,
                              {{"--data", "cifar-10-batches-bin"},
                               {"--make", "0"},
                               {"--epochs", "10"},
                               {"--batch", "64"},
                               {"--log-steps", "10"},
                               {"--augment", "1"},
                               {"--exact", "0"},
                               {"--sync-batchnorm", "1"},
                               {"--checkpoint", ""}});
    if (arguments.number("--make") > 0) {
      make_cifar10(arguments.text("--data"), arguments.number("--make"));
    } else {
      train(arguments);
    }
  } catch (const std::exception& error) {
    lockstep::report_to_launcher(error.what());
    std::cerr << error.what() << "\n";
    return 1;
  }
}
