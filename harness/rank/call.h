// A collective as a value: what one rank requests, and with which tensors.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include <chrono>
#include <string>
#include <vector>

namespace lockstep {

// Lists of lists are joined, in order. An operation in place has the same tensors on both sides.
struct Call {
  std::string op;  // the name of c10d::Backend's function
  std::vector<at::Tensor> inputs;
  std::vector<at::Tensor> outputs;
  int root = -1;  // or the peer of a send or recv
  c10d::ReduceOp::RedOpType reduction = c10d::ReduceOp::UNUSED;
  int tag = 0;                                     // of a send or recv
  std::vector<int64_t> input_sizes, output_sizes;  // of alltoall_base; empty: equal parts
  std::chrono::milliseconds timeout = c10d::kUnsetTimeout;
  bool is_async = true;  // false: on a device, on the caller's own stream, without a wait
};

}  // namespace lockstep
