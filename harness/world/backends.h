// What carries the collectives of real worlds, and with it where their tensors are. No torch.
#pragma once

#include "harness/world/devices.h"

#include <memory>
#include <string>
#include <vector>

namespace lockstep {

class DeviceBackend;  // device_backend.h

struct KnownBackend {
  std::string name;  // as after --backend
  // Why it is of no use on this machine, or in this program; empty: it is. Found out without a
  // thread, and without asking a driver, since ranks are forked afterwards.
  std::string why_not;
  // What is wrong with how it was asked for, which is no reason to skip it; empty: nothing.
  std::string misuse = "";
  std::shared_ptr<const DeviceBackend> device;  // null: tensors are on the CPU
};
using KnownBackends = std::vector<KnownBackend>;

// "gloo", and "accelerator": tensors on a simulated device with streams, whose collectives Gloo
// carries; a program that does not order its streams ends with the sentence about it
// (docs/accelerator.md). Each process has one device of its own, or LOCKSTEP_ACCELERATORS says how
// many the host has for all.
KnownBackends own_backends();

// "gloo_cuda" and "nccl": tensors on GPUs, one a rank where there are enough, else shared, for
// which NCCL gets an environment of its own (one_gpu.h): for correctness alone, never for timing.
// Runs with such worlds say so (Run::shared_devices).
KnownBackends cuda_backends();

// These four.
KnownBackends known_backends();

std::vector<std::string> names_of(const KnownBackends& backends);

// The devices that this process can have of it: none of one whose tensors are on the CPU. May load
// libraries and ask a driver: not in a process that ranks are forked from, and in others before
// LibTorch is asked for anything.
SeenDevices devices_seen(const KnownBackend& backend);

// The one of this name; throws TierError.
const KnownBackend& backend_called(const std::string& name, const KnownBackends& backends);

}  // namespace lockstep
