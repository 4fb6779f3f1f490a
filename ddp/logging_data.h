#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

// A snapshot of one instance on this rank. Names are those of PyTorch's _get_ddp_logging_data();
// docs/semantics.md 1.5.
struct LoggingData {
  // Fixed at construction.
  int world_size = 0;
  int rank = 0;
  std::string module_name;  // the type of the wrapped module
  std::string backend_name;
  bool broadcast_buffers = false;
  bool find_unused_parameters = false;
  bool gradient_as_bucket_view = false;
  bool static_graph = false;
  bool has_sync_bn = false;
  std::string comm_hook;                       // its description; empty: none
  std::vector<std::int64_t> bucket_cap_bytes;  // first bucket, second, ...; the last repeats
  std::int64_t num_parameter_tensors = 0;      // those that are reduced
  std::int64_t total_parameter_size_bytes = 0;
  std::vector<std::string> dtypes;         // of those, each once and sorted: "double", "float"
  std::vector<std::int64_t> bucket_sizes;  // bytes of gradients, in launch order, at construction

  // Training so far. `iteration` counts the synchronised backward passes that succeeded.
  std::int64_t iteration = 0;
  bool has_rebuilt_buckets = false;
  bool join_uneven_inputs = false;  // a join was begun that is not disabled
  std::vector<std::int64_t> rebuilt_bucket_sizes;
  std::vector<std::vector<std::size_t>> rebuilt_per_bucket_param_indices;
  std::vector<std::size_t> prev_iteration_grad_ready_order_indices;
  std::int64_t unused_parameter_size = 0;  // bytes, of the last pass
  std::int64_t num_buckets_reduced = 0;    // of the last pass
  std::string error;                       // of the last pass that failed

  // Times of the last timed pass (the first ten, then every hundredth), and averages over all timed
  // passes. Forward: from its beginning to that of the backward pass. Backward: until autograd is
  // done. Communication: from the first bucket's launch until the wait for the last one ends.
  // Overlap: communication while autograd runs.
  std::int64_t timed_iterations = 0;
  std::chrono::nanoseconds forward_compute_time{0};
  std::chrono::nanoseconds backward_compute_time{0};
  std::chrono::nanoseconds backward_comm_time{0};
  std::chrono::nanoseconds backward_compute_comm_overlap_time{0};
  std::chrono::nanoseconds avg_forward_compute_time{0};
  std::chrono::nanoseconds avg_backward_compute_time{0};
  std::chrono::nanoseconds avg_backward_comm_time{0};
  std::chrono::nanoseconds avg_backward_compute_comm_overlap_time{0};
};

}  // namespace lockstep
