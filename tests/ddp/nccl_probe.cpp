#include "tests/ddp/nccl_probe.h"

#include "ddp/backend/nccl.h"
#include "ddp/distributed_data_parallel.h"
#include "ddp/errors.h"
#include "ddp/init.h"
#include "ddp/sync_batch_norm.h"
#include "harness/worlds/devices/cuda_hold_up.h"

#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/torch.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <string>

namespace lockstep {
namespace {

constexpr std::chrono::seconds kTimeout{60};

std::string loaded() {
  const NcclLibrary& library = load_nccl();
  return library.problem.empty() ? "NCCL " + library.version + ", CUDA " + library.cuda_version
                                 : library.problem;
}

std::string gpu_count() {
  const Gpus gpus = usable_gpus();
  return gpus.problem.empty() ? std::to_string(gpus.names.size()) : gpus.problem;
}

// Past every question of ours: what ProcessGroupNCCL says itself.
std::string made() {
  make_nccl_backend(nullptr, 0, 1, 0, kTimeout);
  return "a backend";
}

std::string settings() {
  std::string text;
  for (const char* name : {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "TORCH_NCCL_DUMP_ON_TIMEOUT"}) {
    const char* const value = std::getenv(name);
    text += std::string(name) + "=" + (value != nullptr ? value : "") + " ";
  }
  return text;
}

std::string sum_on(c10d::ProcessGroup& group, c10::Device device) {
  std::vector<at::Tensor> sum = {
      at::full({1000}, 1.0 + group.getRank(), at::TensorOptions().device(device))};
  group.allreduce(sum)->wait();
  return std::to_string(sum[0].cpu().min().item<double>()) + ".." +
         std::to_string(sum[0].cpu().max().item<double>());
}

// Where tensors are: this rank's GPU, the first one over Gloo, or the CPU.
c10::Device device_of(c10d::ProcessGroup& group, const std::string& backend) {
  const auto otherwise =
      backend == "cpu:gloo" ? c10::Device(c10::kCPU) : c10::Device(c10::kCUDA, 0);
  return group.getBoundDeviceId().value_or(otherwise);
}

// Two instances, so that the group is split, with one GPU where there is one. The gradient of each
// is the average of the ranks'.
std::string trained(const std::string& backend, int ranks_per_device) {
  const auto group = init_process_group(
      {.backend = backend, .ranks_per_device = ranks_per_device, .timeout = kTimeout});
  const auto device = device_of(*group, backend);
  std::string report = backends_of(*group) + " on " + device.str() + ": " + sum_on(*group, device);
  for (int instance = 0; instance < 2; ++instance) {
    torch::nn::Linear layer(torch::nn::LinearOptions(3, 1).bias(false));
    layer->to(device);
    DistributedDataParallel ddp(layer, {.process_group = group});
    const auto input = at::full({1, 3}, 1.0 + group->getRank(), at::TensorOptions().device(device));
    ddp.forward(input).sum().backward();
    report += ", " + std::to_string(layer->weight.grad().cpu().min().item<double>()) + ".." +
              std::to_string(layer->weight.grad().cpu().max().item<double>());
  }
  return report;
}

// Whole numbers from -half to half, over `divisor`: exact, and the same in Python.
at::Tensor pattern(at::IntArrayRef shape, std::int64_t step, std::int64_t begin, std::int64_t half,
                   double divisor, c10::Device device) {
  const auto count = c10::multiply_integers(shape);
  const auto numbers = (at::arange(count, at::kLong) * step + begin).remainder(2 * half + 1) - half;
  return (numbers.to(at::kFloat) / divisor).view(shape).to(device);
}

void tell_tensor(std::string& text, const std::string& name, const at::Tensor& tensor) {
  text += name + ":";
  const at::Tensor row = tensor.detach().cpu().to(at::kDouble).flatten();
  for (std::int64_t i = 0; i < row.numel(); ++i)
    text += " " + std::to_string(row[i].item<double>());
  text += ";";
}

// sync_batch_norm_in_pytorch.py does the same.
std::string normalised(const std::string& backend) {
  const auto group =
      init_process_group({.backend = backend, .ranks_per_device = 64, .timeout = kTimeout});
  const auto device = device_of(*group, backend);
  SyncBatchNorm layer(SyncBatchNormOptions{.num_features = 3, .process_group = group});
  layer->to(device);
  {
    const at::NoGradGuard guard;
    layer->weight.copy_(pattern({3}, 1, 3, 2, 2.0, device));
    layer->bias.copy_(pattern({3}, 1, 0, 2, 4.0, device));
  }
  // Each rank has another number of samples.
  const std::int64_t samples = 4 + group->getRank();
  const auto input = pattern({samples, 3, 5}, 7, 11 * group->getRank(), 8, 4.0, device);
  input.requires_grad_(true);
  const auto output = layer->forward(input);
  (output * pattern({samples, 3, 5}, 5, 1, 3, 2.0, device)).sum().backward();
  std::string text = "normalised ";
  tell_tensor(text, "output", output);
  tell_tensor(text, "input.grad", input.grad());
  tell_tensor(text, "weight.grad", layer->weight.grad());
  tell_tensor(text, "bias.grad", layer->bias.grad());
  tell_tensor(text, "running_mean", layer->running_mean);
  tell_tensor(text, "running_var", layer->running_var);
  return text;
}

// How much of the communication lies beneath backward, as an instance itself tells.
std::string overlap(const std::string& backend) {
  const auto group =
      init_process_group({.backend = backend, .ranks_per_device = 64, .timeout = kTimeout});
  const auto device = device_of(*group, backend);
  torch::nn::Sequential layers;
  for (int i = 0; i < 6; ++i) layers->push_back(torch::nn::Linear(2048, 2048));
  layers->to(device);
  DistributedDataParallel ddp(layers, {.process_group = group});
  const auto input = at::ones({256, 2048}, at::TensorOptions().device(device));
  for (int step = 0; step < 10; ++step) {
    layers->zero_grad();
    ddp.forward(input).sum().backward();
  }
  const LoggingData data = ddp->logging_data();
  const auto milliseconds = [](std::chrono::nanoseconds time) {
    return std::to_string(std::chrono::duration<double, std::milli>(time).count()) + " ms";
  };
  return "of a step of 25 M parameters, averages of " + std::to_string(data.timed_iterations) +
         ": backward " + milliseconds(data.avg_backward_compute_time) + ", communication " +
         milliseconds(data.avg_backward_comm_time) + ", of it beneath backward " +
         milliseconds(data.avg_backward_compute_comm_overlap_time);
}

// Checks that a stream that is held up really is late, and the host not.
std::string held_up() {
  constexpr std::chrono::milliseconds kTime{100};
  const c10::Device gpu(c10::kCUDA, 0);
  const c10::Stream stream = c10::impl::VirtualGuardImpl(gpu.type()).getStreamFromGlobalPool(gpu);
  hold_up_cuda(stream, std::chrono::milliseconds(1));  // what is loaded with the first kernel
  c10::impl::VirtualGuardImpl(gpu.type()).synchronizeStream(stream);
  const auto begun = std::chrono::steady_clock::now();
  hold_up_cuda(stream, kTime);
  c10::Event behind_it(gpu.type());
  behind_it.record(stream);
  const bool is_late = !behind_it.query();
  behind_it.synchronize();
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begun;
  return std::string(is_late ? "late" : "not late") + ": " + std::to_string(took.count()) +
         " ms of " + std::to_string(kTime.count());
}

std::string done(const std::string& what) {
  if (what == "seed") {
    torch::manual_seed(1);
    return "seeded";
  }
  if (what == "load") return loaded();
  if (what == "gpus") return gpu_count();
  if (what == "make") return made();
  if (what == "settings") return settings();
  if (what == "hold") return held_up();
  if (what.starts_with("init=")) {
    return backends_of(*init_process_group({.backend = what.substr(5), .timeout = kTimeout}));
  }
  if (what.starts_with("train=")) return trained(what.substr(6), 1);
  if (what.starts_with("norm=")) return normalised(what.substr(5));
  if (what.starts_with("overlap=")) return overlap(what.substr(8));
  if (what.starts_with("crowd=")) return trained(what.substr(6), 64);
  throw UsageError("unknown: " + what);
}

}  // namespace
}  // namespace lockstep

int nccl_probe(int count, char** arguments) {
  int status = 0;
  for (int i = 1; i < count; ++i) {
    try {
      std::cout << lockstep::done(arguments[i]) << std::endl;
    } catch (const std::exception& error) {
      std::cout << "threw: " << lockstep::first_line(error) << std::endl;
      status = 1;
    }
  }
  return status;
}
