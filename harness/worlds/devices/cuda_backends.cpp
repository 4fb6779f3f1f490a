// Worlds whose tensors are on GPUs, carried by NCCL or by Gloo.
#include "harness/cuda/nccl.h"
#include "harness/cuda/nccl_backend.h"
#include "harness/worlds/devices/backends.h"
#include "harness/worlds/devices/cuda_hold_up.h"
#include "harness/worlds/devices/device_backend.h"
#include "harness/worlds/devices/one_gpu.h"

#include <cstdlib>

namespace lockstep {

namespace {

std::string why_no_gpu() {
  if (!cuda::may_have_gpu()) return "no GPU on this machine";
  if (!cuda::nccl_is_built()) return "built without NCCL (" + cuda::nccl_build_reason() + ")";
  return "";
}

// Each rank that is kept holds a context of CUDA's, half a GB of its GPU's memory and more: sixteen
// kept worlds of each size filled the 80 GB of an H100.
constexpr int kWorldsMost = 3;

class OnGpu : public DeviceBackend {
 public:
  void before_forks() const override { cuda::load_nccl(); }

  SeenDevices seen() const override {
    const cuda::Gpus gpus = cuda::usable_gpus();
    return {.names = gpus.names,
            .kind = gpus.model.empty() ? "GPU" : "GPU (" + gpus.model + ")",
            .problem = gpus.problem};
  }

  c10::Device take(const DeviceAssignment& device, int rank) const override {
    const auto hosts = device.is_on_one_host ? Hosts::one : Hosts::several;
    const auto& nccl = cuda::load_nccl();
    const NcclVersion version{.major = nccl.major, .minor = nccl.minor};
    if (device.is_shared)
      for (const auto& [name, value] : one_gpu_environment(rank, device.world, version, hosts))
        setenv(name.c_str(), value.c_str(), 1);
    return {c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(device.index)};
  }

  void hold_up(const c10::Stream& stream, std::chrono::milliseconds time) const override {
    hold_up_cuda(stream, time);
  }
};

class Nccl final : public OnGpu {
 public:
  c10::intrusive_ptr<c10d::Backend> make(const Wanted& wanted) const override {
    return cuda::connected_nccl_backend({.store = wanted.store,
                                         .rank = wanted.rank,
                                         .size = wanted.size,
                                         .device_index = wanted.device.index(),
                                         .timeout = wanted.timeout});
  }
};

// Through pinned copies: a program's device code, without NCCL.
class GlooOfCuda final : public OnGpu {
 public:
  c10::intrusive_ptr<c10d::Backend> make(const Wanted& wanted) const override {
    return wanted.on_cpu;
  }
};

}  // namespace

KnownBackends cuda_backends() {
  return {{.name = "gloo_cuda",
           .why_not = why_no_gpu(),
           .misuse = "",
           .device = std::make_shared<const GlooOfCuda>(),
           .worlds_most = kWorldsMost},
          {.name = "nccl",
           .why_not = why_no_gpu(),
           .misuse = "",
           .device = std::make_shared<const Nccl>(),
           .worlds_most = kWorldsMost}};
}

}  // namespace lockstep
