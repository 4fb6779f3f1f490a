// The backends that carry the collectives of real worlds, and the device of their tensors. No
// torch.
#pragma once

#include "harness/worlds/devices/devices.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

class DeviceBackend;  // device_backend.h

struct KnownBackend {
  std::string name;  // as given to --backend
  // Why this machine or this program cannot use it; empty: it can. Found without a thread and
  // without querying a driver, since ranks are forked afterwards.
  std::string why_not;
  // The mistake in the request for it, which is no reason to skip; empty: none.
  std::string misuse = "";
  std::shared_ptr<const DeviceBackend> device;  // null: tensors are on the CPU
  // How many worlds of each size may be kept at once; nothing: as many as the machine has cores
  // for.
  std::optional<int> worlds_most = {};
};
using KnownBackends = std::vector<KnownBackend>;

// "gloo", and "accelerator": tensors on a simulated device with streams, whose collectives Gloo
// carries; a program that does not order its streams ends with an error that says so
// (docs/accelerator.md). Each process has one device of its own, or LOCKSTEP_ACCELERATORS says how
// many the host has for all.
KnownBackends own_backends();

// "gloo_cuda" and "nccl": tensors on GPUs, one a rank where there are enough, else shared, for
// which NCCL gets its own environment (one_gpu.h): for correctness alone, never for timing. Runs
// with such worlds say so (Run::shared_devices).
KnownBackends cuda_backends();

// All four backends above.
KnownBackends known_backends();

std::vector<std::string> names_of(const KnownBackends& backends);

// The devices of `backend` that this process can use; none if its tensors are on the CPU. May load
// libraries and query a driver: do not call it in a process that ranks are forked from, and in
// others call it before anything of LibTorch.
SeenDevices devices_seen(const KnownBackend& backend);

// The backend with this name; throws TierError if there is none.
const KnownBackend& backend_called(const std::string& name, const KnownBackends& backends);

}  // namespace lockstep
