#pragma once

#include "ddp/communicator.h"
#include "ddp/options.h"

#include <torch/nn/module.h>

#include <cstddef>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace lockstep {

// Overwrites `tensors` with group rank 0's, bit for bit, whatever their dtypes: each dtype's
// tensors travel together as bytes, at most `bytes_cap` (250 MiB by default) at a time plus one
// tensor. Shapes and dtypes are equal on all ranks; empty tensors stay at home, and one that holds
// the same bits already is not written. Collective; blocks; throws CommunicationError. A world of
// one sends to itself.
//
// Note [What a graph has saved]
// Writing a tensor tells autograd, which then refuses the backward pass of a graph that saved its
// value. That is right for a buffer that forward multiplied with, and wrong for the running
// statistics of a BatchNorm in training, which its graph holds and does not read: they would spoil
// two forwards before one backward (and do in PyTorch up to 2.11). So the write is hidden from
// autograd for those in `unread`, and for nothing else. Source: docs/semantics.md 0.4.
void broadcast_from_rank_zero(Communicator& communicator, const std::vector<at::Tensor>& tensors,
                              const std::string& description,
                              const std::set<const at::TensorImpl*>& unread = {},
                              std::int64_t bytes_cap = std::int64_t{250} << 20);

// Keeps a module's buffers equal to rank 0's, but for those that the options ignore. The buffers
// are looked up at every call, so one that was replaced by another of the same shape and dtype is
// the one that is synchronised. The list and its shapes must stay those of the construction, where
// the ranks compared them; PyTorch would let all ranks change them together. Source:
// docs/semantics.md 1.3.
class BufferSync {
 public:
  // Local. Without buffers here, synchronise() never does anything (as in PyTorch).
  BufferSync(std::shared_ptr<torch::nn::Module> module,
             const DistributedDataParallelOptions& options);

  // Collective; blocks. Throws UsageError if the buffers are not those of the construction;
  // CommunicationError.
  void synchronise(Communicator& communicator);

 private:
  const std::shared_ptr<torch::nn::Module> module_;
  DistributedDataParallelOptions options_;
  const std::vector<std::string> layout_;  // one line for each buffer: name, dtype, shape
};

}  // namespace lockstep
