#pragma once

#include "ddp/buffer_hook.h"
#include "ddp/comm/communicator.h"
#include "ddp/options.h"

#include <torch/nn/module.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace lockstep {

// Overwrites `tensors` with group rank `source`'s, bit for bit, whatever their dtypes: each dtype's
// tensors of one device are sent together as bytes, at most broadcast_cap_mb of the options at a
// time plus one tensor. Shapes and dtypes are equal on all ranks; empty tensors are not sent, and a
// CPU tensor that already holds the same bits is not written. Collective; blocks; throws
// CommunicationError. A world of one sends to itself.
//
// Note [What a graph has saved]
// Writing a tensor bumps its version, so autograd refuses the backward pass of a graph that saved
// its value. That is right for a buffer that forward multiplied with, and for the statistics that a
// BatchNorm in evaluation mode normalised by. It is wrong for a BatchNorm in training, whose graph
// saves its statistics and does not read them: two forwards before one backward would raise, as in
// PyTorch up to 2.11. So the write is hidden from autograd for the tensors in `unread`: the
// statistics of BatchNorm, as long as no graph of a forward in evaluation mode lives. An
// InstanceNorm normalises by copies, so that no graph saves its statistics. Source:
// docs/semantics.md 0.4.
void broadcast_from(int source, Communicator& communicator, const std::vector<at::Tensor>& tensors,
                    const std::string& description, const DistributedDataParallelOptions& options,
                    const std::set<const at::TensorImpl*>& unread = {});

// Keeps a module's buffers equal to one rank's (rank 0's, except in a join), apart from the ignored
// ones. The buffers are looked up at every call, so a buffer that replaced another of the same
// shape and dtype is synchronised. The list and its shapes must stay as compared at construction;
// PyTorch would let all ranks change them together. Source: docs/semantics.md 1.3.
class BufferSync {
 public:
  // Local. Without buffers at construction, synchronise() never does anything (as in PyTorch).
  BufferSync(std::shared_ptr<torch::nn::Module> module,
             const DistributedDataParallelOptions& options);

  bool has_any() const { return !names_.empty(); }

  // From now on `hook` is called in place of the broadcast. Local.
  void set_hook(std::shared_ptr<BufferHook> hook, BufferHookPlace place);
  const BufferHook* hook() const { return hook_.get(); }
  BufferHookPlace place() const { return place_; }

  // Around a forward of a module that has buffers, in which they are due: one of the two calls does
  // something. before_forward() is Collective and blocks, after_forward() too unless its forward
  // was local. They throw ChangedBuffers if the buffers are not those of the construction;
  // CommunicationError.
  void before_forward(Communicator& communicator, int source = 0);
  void after_forward(Communicator& communicator);

  // The forward threw: nothing comes after it. Local.
  void forward_threw() { source_after_forward_.reset(); }

  // Called after each forward with gradients: remembers which buffers its graph may read, as long
  // as the graph of its outputs lives. `outputs` is empty if they cannot be seen. Local.
  void forward_ran(const std::optional<std::vector<at::Tensor>>& outputs);

 private:
  using Identities = std::set<const at::TensorImpl*>;
  // Buffers that a graph may read, and what lives as long as the graph.
  struct Reader {
    Identities buffers;
    std::weak_ptr<const bool> graph;
  };
  Identities unread_buffers();
  std::vector<NamedBuffer> buffers(const Communicator& communicator) const;
  void call_hook(Communicator& communicator, int source) const;

  const std::shared_ptr<torch::nn::Module> module_;
  DistributedDataParallelOptions options_;
  const std::vector<std::string> names_, layout_;  // layout: one line for each: name, dtype, shape
  std::shared_ptr<BufferHook> hook_;               // null where buffers are broadcast
  BufferHookPlace place_ = BufferHookPlace::before_forward;
  std::optional<int> source_after_forward_;  // in a forward after which they are due
  std::vector<Reader> readers_;
  std::shared_ptr<const bool> unseen_graph_;
};

}  // namespace lockstep
