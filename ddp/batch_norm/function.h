#pragma once

#include "ddp/batch_norm/statistics.h"
#include "ddp/communicator.h"

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>

namespace lockstep {

// The two halves of batch normalisation on one rank's tensors: statistics of its own batch, and
// normalising with statistics that the ranks have merged, with a backward pass of its own.
//
// Inputs are [samples, channels, ...] of Half, BFloat16, Float or Double, on the CPU, of any
// strides, and may be empty. All arithmetic is in double precision, so sums of narrow inputs
// neither overflow nor lose the count; what is returned has the dtype of what it belongs to.

// Of this rank's own batch. Local.
BatchStatistics statistics_of(const at::Tensor& input);

// What every rank knows about the whole batch.
struct WholeBatch {
  BatchStatistics statistics;
  double eps = 0;
  // Non-null where some rank's input needs a gradient: then the backward pass of *every* rank sums
  // two numbers a channel over the ranks, whether its own input needs one or not.
  std::shared_ptr<Communicator> communicator;
};

// (input - average) / sqrt(variance + eps) * weight + bias, with the biased variance; without
// weight and bias where they are undefined. Local, and does not block.
//
// Its backward pass is Collective and blocks if `batch.communicator` is given: the gradient of the
// input is that of the sum of all ranks' losses, for the statistics depend on every rank's input.
// Gradients of weight and bias are this rank's own share. It throws CommunicationError, and
// UsageError where a second derivative is asked for.
at::Tensor normalised(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias,
                      WholeBatch batch);

}  // namespace lockstep
