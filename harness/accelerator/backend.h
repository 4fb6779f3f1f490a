#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

namespace lockstep {

// Planted ordering mistakes that a program's own code cannot make, to prove that they are found:
// the backend's stream does not wait for the caller's before a collective (kEntry), or the caller's
// does not wait for the backend's in wait() (kExit).
enum class Misorder { kNothing, kEntry, kExit };

// A backend for tensors of the simulated accelerator that behaves as NCCL's and carries them by
// `inner`, a CPU backend of the same ranks that must have no other user.
//
// A collective runs on the backend's own stream, one per device, which first waits for the caller's
// current stream; with asyncOp false it runs on the caller's. Work::wait() without a timeout makes
// the current stream wait and does not report a failure, which isCompleted() and exception() do;
// barrier's blocks the host. Work::wait(timeout) blocks the host, throws the failure, and aborts on
// a timeout: the work has failed, and everything issued later throws. Tensors must be contiguous;
// they are kept alive until the first wait.
//
// Supports all-reduce, broadcast, all-gather (of lists and of one tensor) and barrier; anything
// else throws c10::Error, as do tensors that are not on a device. Groups can be split if `inner`
// can be. Collective, as the constructor of `inner` is; does not block.
c10::intrusive_ptr<c10d::Backend> make_accelerator_backend(c10::intrusive_ptr<c10d::Backend> inner,
                                                           Misorder misorder = Misorder::kNothing);

// Adds that backend to a group, for the accelerator's tensors. The group's CPU backend must be
// Gloo: the inner backend is split off it. Collective; blocks until the ranks are connected.
void add_accelerator_backend(c10d::ProcessGroup& group, Misorder misorder = Misorder::kNothing);

}  // namespace lockstep
