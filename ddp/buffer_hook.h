#pragma once

#include "ddp/communication_hook.h"

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

namespace lockstep {

// A buffer of a module that is not ignored, as named_buffers() names it.
struct NamedBuffer {
  std::string name;
  at::Tensor tensor;
};

// Replaces what DistributedDataParallel does with buffers: the broadcast from one rank. One object
// serves one instance. An exception that it throws ends the instance on every rank. Source:
// DistributedDataParallel._register_buffer_comm_hook; docs/semantics.md 1.3.
class BufferHook {
 public:
  virtual ~BufferHook() = default;

  // Its name and settings, which must be equal on all ranks: "average_buffers".
  virtual std::string description() const = 0;

  // Makes of the buffers, in place, what they are to be. Called on every rank in each forward in
  // which buffers are due, in a join on ranks without inputs too. `source`: the rank from which
  // they would be broadcast. Collective; blocks until the tensors may be used.
  virtual void run(const std::vector<NamedBuffer>& buffers, int source,
                   HookCollectives& collectives) = 0;
};

// Before the module's forward, as the broadcast; or after it, so that what this forward has changed
// is the same on all ranks when it returns.
enum class BufferHookPlace { before_forward, after_forward };

// Averages buffers of floating dtypes over the ranks: each is multiplied by 1/W, rounded to its
// dtype, and summed. Others keep each rank's own values, which are equal where every rank counts
// alike.
std::shared_ptr<BufferHook> average_buffers_hook();

}  // namespace lockstep
