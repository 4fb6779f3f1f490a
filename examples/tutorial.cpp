// The steps of PyTorch's tutorial on DistributedDataParallel, one after another, in processes that
// this program starts itself:
//
//   tutorial --ranks 4
//
// basic         wrap a model, run one step, and see that all ranks hold the same parameters
// skewed        ranks of different speeds, and what happens where one is later than the timeout
// checkpoint    save on rank 0, load on every rank, wherever its tensors are
// parts         a model whose two parts are on two devices, where there are two
#include "arguments.h"
#include "lockstep/ddp.h"

#include <torch/torch.h>

#include <chrono>
#include <filesystem>
#include <iostream>
#include <thread>

namespace {

using Group = c10::intrusive_ptr<c10d::ProcessGroup>;

torch::nn::Sequential toy() {
  return torch::nn::Sequential(torch::nn::Linear(10, 10), torch::nn::ReLU(),
                               torch::nn::Linear(10, 5));
}

// One step on made-up data of this rank's own.
template <class Ddp>
void step(Ddp& ddp, torch::optim::Optimizer& optimizer) {
  optimizer.zero_grad();
  torch::mse_loss(ddp.forward(torch::randn({20, 10})), torch::randn({20, 5})).backward();
  optimizer.step();
}

// The same on all ranks for the same parameters.
double sum_of(const torch::nn::Module& module) {
  double sum = 0;
  for (const auto& parameter : module.parameters()) sum += parameter.sum().item<double>();
  return sum;
}

bool is_alike_on_all_ranks(const Group& group, double value) {
  const auto all = lockstep::all_gather(group, torch::tensor(value, torch::kFloat64));
  for (const auto& each : all) {
    if (each.item<double>() != value) return false;
  }
  return true;
}

void basic(const Group& group) {
  torch::manual_seed(
      static_cast<std::uint64_t>(group->getRank()));  // rank 0's model is sent to all
  auto net = toy();
  lockstep::DistributedDataParallel ddp(net, {.process_group = group});
  torch::optim::SGD optimizer(net->parameters(), 0.001);
  step(ddp, optimizer);
  lockstep::print_rank_0(group, "basic: after a step the ranks hold ",
                         is_alike_on_all_ranks(group, sum_of(*net)) ? "the same" : "DIFFERENT",
                         " parameters");
}

// Forward, backward and the optimizer run at each rank's own speed; ranks meet in the backward
// pass, and a rank that is later than the timeout is an error for all, which names it where the
// timeout is two seconds or more.
void skewed(const Group& group) {
  auto net = toy();
  lockstep::DistributedDataParallel ddp(
      net, {.process_group = group, .timeout = std::chrono::milliseconds(4000)});
  torch::optim::SGD optimizer(net->parameters(), 0.001);
  const bool is_slow = group->getRank() == group->getSize() - 1;
  if (is_slow) std::this_thread::sleep_for(std::chrono::milliseconds(200));
  step(ddp, optimizer);
  lockstep::print_rank_0(group, "skewed: a rank that is 0.2 s late is waited for");
  if (group->getSize() == 1) return;
  if (is_slow) std::this_thread::sleep_for(std::chrono::milliseconds(8000));
  try {
    step(ddp, optimizer);
    lockstep::print_rank_0(group, "skewed: MISSED a rank that is 8 s late");
  } catch (const lockstep::CommunicationError& error) {
    lockstep::print_rank_0(group,
                           "skewed: with a timeout of 4 s, 8 s are too late: ", error.what());
  }
}

void checkpoint(const Group& group, const std::string& path) {
  auto net = toy();
  lockstep::DistributedDataParallel ddp(net, {.process_group = group});
  torch::optim::SGD optimizer(net->parameters(), 0.001);
  step(ddp, optimizer);
  const double saved = sum_of(*net);
  // Rank 0 writes; all return when it is on disk, as with a barrier.
  lockstep::save_checkpoint(path, group, {.model = &*net, .optimizer = &optimizer});
  step(ddp, optimizer);
  // Each tensor stays on its device, which is what map_location is for.
  lockstep::load_checkpoint(path, group, {.model = &*net, .optimizer = &optimizer});
  lockstep::print_rank_0(group, "checkpoint: what was loaded is ",
                         sum_of(*net) == saved ? "what was saved" : "SOMETHING ELSE");
  lockstep::barrier(group);
  if (group->getRank() == 0) std::filesystem::remove(path);
}

// A model with a device for each part. Rank r of W has devices 2r and 2r + 1 where there are as
// many, as in the tutorial; else both are the CPU.
struct TwoPartsImpl : torch::nn::Module {
  TwoPartsImpl(torch::Device first, torch::Device second)
      : first_device(first), second_device(second) {
    first_part = register_module("first_part", torch::nn::Linear(10, 10));
    second_part = register_module("second_part", torch::nn::Linear(10, 5));
    first_part->to(first);
    second_part->to(second);
  }
  at::Tensor forward(const at::Tensor& input) {
    const auto hidden = torch::relu(first_part(input.to(first_device)));
    return second_part(hidden.to(second_device)).to(torch::kCPU);
  }
  torch::Device first_device, second_device;
  torch::nn::Linear first_part{nullptr}, second_part{nullptr};
};
TORCH_MODULE(TwoParts);

void parts(const Group& group) {
  torch::Device first(torch::kCPU), second(torch::kCPU);
  if (static_cast<int>(torch::cuda::device_count()) >= 2 * group->getSize()) {
    first = torch::Device(torch::kCUDA, static_cast<c10::DeviceIndex>(2 * group->getRank()));
    second = torch::Device(torch::kCUDA, static_cast<c10::DeviceIndex>(2 * group->getRank() + 1));
  }
  TwoParts net(first, second);
  lockstep::DistributedDataParallel ddp(net, {.process_group = group});
  torch::optim::SGD optimizer(net->parameters(), 0.001);
  step(ddp, optimizer);
  lockstep::print_rank_0(group, "parts: on ", first, " and ", second, " the ranks hold ",
                         is_alike_on_all_ranks(group, sum_of(*net)) ? "the same" : "DIFFERENT",
                         " parameters");
}

}  // namespace

int main(int count, char** words) {
  try {
    const Arguments arguments(
        count, words,
        {{"--ranks", "2"},
         {"--file", (std::filesystem::temp_directory_path() / "lockstep-tutorial.pt").string()}});
    lockstep::spawn(static_cast<int>(arguments.number("--ranks")), [&](int) {
      const auto group = lockstep::init_process_group();
      basic(group);
      checkpoint(group, arguments.text("--file"));
      parts(group);
      skewed(group);  // last: its timeout ends what the group is used for
    });
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
