#pragma once

#include "ddp/batch_norm/kernels.h"
#include "ddp/communicator.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

namespace lockstep {

// Normalising with statistics that the ranks have merged, as a function with a backward pass of its
// own. Inputs are those of kernels.h.

// What every rank knows about the whole batch.
struct WholeBatch {
  Normaliser by;
  std::int64_t count = 0;  // values a channel
  // Non-null where some rank's input needs a gradient: then the backward pass of *every* rank sums
  // two numbers a channel over the ranks, whether its own input needs one or not.
  std::shared_ptr<Communicator> communicator;
};

// kernels.h's normalise(). Local, and does not block.
//
// Its backward pass is Collective and blocks if `batch.communicator` is given: the gradient of the
// input is that of the sum of all ranks' losses, for the statistics depend on every rank's input.
// Gradients of weight and bias are this rank's own share. It throws CommunicationError, and
// UsageError where a second derivative is asked for.
at::Tensor normalised(const at::Tensor& input, WholeBatch batch);

}  // namespace lockstep
