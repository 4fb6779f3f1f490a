#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

// Options of DistributedDataParallel. Names and defaults are PyTorch's (2.13); every value but
// process_group and timeout must be equal on all ranks, which the construction checks, as it does
// the combinations that mean nothing. Names are those of named_parameters() and named_buffers() of
// the module that is wrapped, such as "encoder.0.weight".
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

  // Whether the forward after a local one (inside no_sync, or without gradients) leaves buffers
  // alone, as PyTorch's does. False: every forward outside no_sync broadcasts them.
  bool buffer_sync_lag = true;

  // A bucket is closed by the gradient that brings it to this many MiB (2^20 bytes) or more; at
  // least 0, fractions are fine. Unset: 25, with a first bucket of 1 MiB so that communication
  // starts early. Without find_unused_parameters the first synchronised backward pass has one
  // bucket per dtype either way.
  std::optional<double> bucket_cap_mb;

  // In its place: the caps of the first bucket, the second, ..., of which the last repeats. In the
  // first synchronised pass they count from the parameters registered first, whose buckets are
  // launched last (as in PyTorch); from then on in the order of launch.
  std::vector<double> bucket_cap_mb_list;

  // For models whose forward does not use every parameter, on every rank, each time: finds out by
  // walking the graph behind forward's outputs. A parameter that no rank used keeps its .grad; one
  // that some did gets the average, with what .grad held counted for the others.
  bool find_unused_parameters = false;

  // Gradients are views of the buckets: no copy, and less memory by the size of the gradients. One
  // that is kept from step to step is then divided by W, where a new one is multiplied by 1/W.
  bool gradient_as_bucket_view = false;

  // The caller's promise that every forward uses the same parameters, each as often. Then nested
  // backward passes (recomputation) and unused parameters cost nothing. The first synchronised pass
  // learns what is used, and reduces when it has ended.
  bool static_graph = false;

  // Does not send buckets of which no rank uses a parameter. Needs find_unused_parameters or
  // static_graph. Ranks compare what they do not use first (PyTorch takes the caller's word), and
  // where they differ everything is sent.
  bool skip_all_reduce_unused_params = false;

  // Copies a bucket's gradients at once, when all are there, and divides the whole.
  bool batched_grad_copy = false;

  // Neither broadcast, nor reduced, nor compared.
  std::vector<std::string> parameters_and_buffers_to_ignore;

  // Parameters whose gradients travel behind all others, in one bucket for each dtype, once the
  // gradient of `param_to_hook_all_reduce` is there too. Both or neither.
  std::vector<std::string> delay_all_reduce_named_params;
  std::string param_to_hook_all_reduce;

  // Longest wait for one collective, positive. Unset: the timeout of the group's backend, or five
  // minutes if the backend does not tell.
  std::optional<std::chrono::milliseconds> timeout;
};

}  // namespace lockstep
