#pragma once

#include "ddp/communicator.h"

#include <torch/nn/module.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace lockstep {

// Overwrites `tensors` with group rank 0's, bit for bit, whatever their dtypes: each dtype's
// tensors travel together as bytes, at most `bytes_cap` (250 MiB by default) at a time plus one
// tensor. Shapes and dtypes are equal on all ranks; empty tensors stay at home. Writing keeps
// autograd's version counters, so a graph built before may still run its backward pass
// (docs/semantics.md 0.4). Collective; blocks; throws CommunicationError. A world of one sends to
// itself.
void broadcast_from_rank_zero(Communicator& communicator, const std::vector<at::Tensor>& tensors,
                              const std::string& description,
                              std::int64_t bytes_cap = std::int64_t{250} << 20);

// Keeps a module's buffers equal to rank 0's. The buffers are looked up at every call, so one that
// was replaced by another of the same shape and dtype is the one that is synchronised. The list and
// its shapes must stay those of the construction, where the ranks compared them; PyTorch would let
// all ranks change them together. Source: docs/semantics.md 1.3.
class BufferSync {
 public:
  // Local. Without buffers here, synchronise() never does anything (as in PyTorch).
  explicit BufferSync(std::shared_ptr<torch::nn::Module> module);

  // Collective; blocks. Throws UsageError if the buffers are not those of the construction;
  // CommunicationError.
  void synchronise(Communicator& communicator);

 private:
  const std::shared_ptr<torch::nn::Module> module_;
  const std::vector<std::string> layout_;  // one line for each buffer: name, dtype, shape
};

}  // namespace lockstep
