#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include <optional>
#include <string>

namespace lockstep {

// The reductions of c10d, also for dtypes that a backend lacks. Everything is Local.

// Why tensors of this dtype have no such reduction over the backend; nothing if they have.
std::optional<std::string> problem_with(const c10d::ReduceOp& operation, at::ScalarType dtype,
                                        const std::string& backend);

// "SUM".
std::string name_of(const c10d::ReduceOp& operation);

// The reduction that the backend computes: the sum, of an average.
c10d::ReduceOp sent_operation(const c10d::ReduceOp& operation);

// A contiguous copy of `tensor` that a backend can reduce: complex numbers as pairs, bool as bytes,
// int16 as int32.
at::Tensor packed_for_reduction(const at::Tensor& tensor);

// Writes `packed`, reduced over `world_size` ranks, into `tensor`.
void unpack_reduced(const at::Tensor& packed, const at::Tensor& tensor,
                    const c10d::ReduceOp& operation, int world_size);

}  // namespace lockstep
