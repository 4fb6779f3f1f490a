#pragma once

#include "ddp/comm/communicator.h"
#include "ddp/sync_batch_norm/kernels.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

namespace lockstep {

// Normalisation by the merged statistics of all ranks, as an autograd function. Inputs are those of
// kernels.h.

// The whole batch, as known to every rank.
struct WholeBatch {
  Normaliser by;
  std::int64_t count = 0;  // values per channel
  // Non-null if some rank's input needs a gradient: then the backward pass of *every* rank sums two
  // numbers per channel over the ranks, whether its own input needs a gradient or not.
  std::shared_ptr<Communicator> communicator;
};

// kernels.h's normalise(). Local, and does not block.
//
// Its backward pass is Collective and blocks if `batch.communicator` is given: the gradient of the
// input is that of the sum of all ranks' losses, because the statistics depend on every rank's
// input. Gradients of weight and bias are this rank's own share. It throws CommunicationError, and
// UsageError if a second derivative is requested.
at::Tensor normalised(const at::Tensor& input, WholeBatch batch);

}  // namespace lockstep
