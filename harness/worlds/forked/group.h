// A group of a forked world: Gloo, and for a device's tensors the device's backend.
#pragma once

#include "harness/rank/tap.h"
#include "harness/worlds/devices/device_backend.h"

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace lockstep {

// A group whose collectives are recorded.
struct TappedGroup {
  c10::intrusive_ptr<c10d::ProcessGroup> group;
  std::vector<c10::intrusive_ptr<Tap>>
      taps;  // of the CPU's tensors, and of a device's where another carries these
};

// The device of a rank's tensors.
struct RankDevice {
  const DeviceBackend* backend = nullptr;  // null: on the CPU
  c10::Device device = c10::kCPU;
};

// Over `ranks`, which include `own_rank`, rendezvous in `store` and listen on `listens_on`, each an
// address of its host; every wait in it ends after `limit`. Collective; blocks.
TappedGroup make_group(const std::vector<int>& ranks, int own_rank, std::chrono::milliseconds limit,
                       const c10::intrusive_ptr<c10d::Store>& store, const std::string& listens_on,
                       const RankDevice& device, const std::shared_ptr<TapLog>& log);

}  // namespace lockstep
