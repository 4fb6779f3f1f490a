#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

// Options of DistributedDataParallel. Names and defaults are PyTorch's, where it has them; every
// value but process_group and timeout must be equal on all ranks, which the construction checks; it
// also refuses combinations that mean nothing. Names of parameters and buffers are those of the
// wrapped module's named_parameters() and named_buffers(), such as "encoder.0.weight".
struct DistributedDataParallelOptions {
  // The ranks that train together. Required; broadcasts come from the group's own rank 0, and the
  // divisor is its size.
  c10::intrusive_ptr<c10d::ProcessGroup> process_group;

  // Construction broadcasts parameters and buffers. False: equality is the caller's duty.
  bool init_sync = true;

  // Forward broadcasts buffers from rank 0; true unless set. `broadcast_buffers` is its old
  // name, without the old effect on init_sync; giving both with different values is an error.
  std::optional<bool> forward_sync_buffers;
  std::optional<bool> broadcast_buffers;

  // The forward after a local one (inside no_sync, or without gradients) does not broadcast
  // buffers, as PyTorch's does not. False: every forward outside no_sync broadcasts them.
  bool buffer_sync_lag = true;

  // A bucket is closed by the gradient that brings it to this many MiB (2^20 bytes) or more; at
  // least 0, fractions are fine. Unset: 25, with a first bucket of 1 MiB so that communication
  // starts early. Without find_unused_parameters the first synchronised backward pass has one
  // bucket per dtype either way.
  std::optional<double> bucket_cap_mb;

  // Instead of bucket_cap_mb: the caps of the first bucket, the second, ...; the last one repeats.
  // In the first synchronised pass they count from the parameters registered first, whose buckets
  // are launched last (as in PyTorch); from then on in launch order.
  std::vector<double> bucket_cap_mb_list;

  // For models whose forward does not use every parameter, on every rank, each time: walks the
  // graph of forward's outputs to find the unused ones. A parameter that no rank used keeps its
  // .grad; one that some ranks used gets the average, in which the others count with what .grad
  // held.
  bool find_unused_parameters = false;

  // Gradients are views of the buckets: no copy, and less memory by the size of the gradients. A
  // gradient that is kept from step to step is then divided by W, whereas a new one is multiplied
  // by 1/W.
  bool gradient_as_bucket_view = false;

  // The caller's promise that every forward uses the same parameters, each as often. Then nested
  // backward passes (recomputation) and unused parameters cost nothing. The first synchronised pass
  // records which parameters are used, and reduces at its end.
  bool static_graph = false;

  // Does not send buckets of which no rank uses a parameter. Needs find_unused_parameters or
  // static_graph. Ranks first compare their unused parameters (PyTorch trusts the caller); if they
  // differ, everything is sent.
  bool skip_all_reduce_unused_params = false;

  // Copies a bucket's gradients in one batch, when all are ready, and divides the whole bucket.
  bool batched_grad_copy = false;

  // Compares the ranks' parameters bit for bit in every n-th synchronised forward, and the buffers
  // that it has just broadcast: a rank that has updated its own replica is reported soon, on every
  // rank, by a DisagreementError with the first element that differs
  // (train/check_replicas_equal.h). At least 0; 0: never. Not in a join.
  int check_replicas_every = 0;

  // Parameters and buffers are broadcast in messages that are full at this many MiB, or more by one
  // tensor; at least 0, where each tensor has a message of its own.
  double broadcast_cap_mb = 250;

  // Neither broadcast, nor reduced, nor compared.
  std::vector<std::string> parameters_and_buffers_to_ignore;

  // Parameters whose gradients are reduced after all others, in one bucket for each dtype. The
  // second names the parameter that they wait for, as in PyTorch; as buckets leave in order they
  // wait for all others, whichever it names. Set both or neither.
  std::vector<std::string> delay_all_reduce_named_params;
  std::string param_to_hook_all_reduce;

  // Longest wait for one collective, positive. Unset: the timeout of the group's backend, or half
  // an hour if the backend reports none.
  std::optional<std::chrono::milliseconds> timeout;
};

// Calls visit(name, value) for each option that ranks compare, in the order in which a difference
// is reported: `options` may be const. A new option is a member above and a line here.
template <class Options, class Visit>
void visit_compared_options(Options& options, const Visit& visit) {
  visit("init_sync", options.init_sync);
  visit("forward_sync_buffers",
        options.forward_sync_buffers.value_or(options.broadcast_buffers.value_or(true)));
  visit("buffer_sync_lag", options.buffer_sync_lag);
  visit("check_replicas_every", options.check_replicas_every);
  visit("broadcast_cap_mb", options.broadcast_cap_mb);
  visit("bucket_cap_mb", options.bucket_cap_mb);
  visit("bucket_cap_mb_list", options.bucket_cap_mb_list);
  visit("find_unused_parameters", options.find_unused_parameters);
  visit("gradient_as_bucket_view", options.gradient_as_bucket_view);
  visit("static_graph", options.static_graph);
  visit("skip_all_reduce_unused_params", options.skip_all_reduce_unused_params);
  visit("batched_grad_copy", options.batched_grad_copy);
  visit("parameters_and_buffers_to_ignore", options.parameters_and_buffers_to_ignore);
  visit("delay_all_reduce_named_params", options.delay_all_reduce_named_params);
  visit("param_to_hook_all_reduce", options.param_to_hook_all_reduce);
}

}  // namespace lockstep
