#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

namespace lockstep {

// Mistakes that a program's own code cannot make, for proofs that they would be found: the
// backend's stream does not wait for the caller's before a collective, or the caller's not for it
// in wait().
enum class Misorder { kNothing, kEntry, kExit };

// A backend for tensors of the simulated accelerator, in the manner of NCCL's, that carries them by
// `inner`, a backend of the same ranks for the CPU which nobody else may use.
//
// A collective runs on a stream of the backend's own, one for each device, which first waits for
// the caller's current stream; with asyncOp false it runs on that. Work::wait() without a timeout
// makes the current stream wait and says nothing of a failure, which isCompleted() and exception()
// tell; barrier's holds up the host. Work::wait(timeout) holds up the host, throws what failed, and
// where the time is over it aborts: the work has failed, and all that is issued later throws.
// Tensors are contiguous; until somebody waited they are kept alive.
//
// all-reduce, broadcast, all-gather (of lists and of one tensor) and barrier; anything else throws
// c10::Error, as do tensors that are not on a device. Groups can be split as far as `inner` can be.
// Collective, as the constructor of `inner` is; blocks nowhere.
c10::intrusive_ptr<c10d::Backend> make_accelerator_backend(c10::intrusive_ptr<c10d::Backend> inner,
                                                           Misorder misorder = Misorder::kNothing);

// Gives a group that backend for the accelerator's tensors, beside what it has for the CPU's, which
// must be Gloo: the inner one is split off that. Collective; blocks until the ranks are connected.
void add_accelerator_backend(c10d::ProcessGroup& group, Misorder misorder = Misorder::kNothing);

}  // namespace lockstep
