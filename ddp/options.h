#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <chrono>
#include <optional>

namespace lockstep {

// Options of DistributedDataParallel. Names and defaults are PyTorch's; every value but
// group and timeout must be equal on all ranks, which the construction checks.
struct DistributedDataParallelOptions {
  // The ranks that train together. Required; source and divisor are the group's own rank 0 and
  // size.
  c10::intrusive_ptr<c10d::ProcessGroup> process_group;

  // Whether construction broadcasts parameters and buffers. False: equality is the caller's duty.
  bool init_sync = true;

  // Whether forward broadcasts buffers from rank 0; true unless set. `broadcast_buffers` is its old
  // name, without the old effect on init_sync; giving both with different values is an error.
  std::optional<bool> forward_sync_buffers;
  std::optional<bool> broadcast_buffers;

  // A bucket is closed by the gradient that brings it to this many MiB (2^20 bytes) or more; at
  // least 0, fractions are fine. Unset: 25, with a first bucket of 1 MiB so that communication
  // starts early. The first synchronised backward pass has one bucket per dtype either way.
  std::optional<double> bucket_cap_mb;

  // Longest wait for one collective, positive. Unset: the timeout of the group's backend, or five
  // minutes if the backend does not tell.
  std::optional<std::chrono::milliseconds> timeout;

  // Not in this version: true is refused, by name, on all ranks.
  bool find_unused_parameters = false;
  bool gradient_as_bucket_view = false;
  bool static_graph = false;
};

}  // namespace lockstep
