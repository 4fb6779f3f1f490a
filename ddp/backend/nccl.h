#pragma once

#include "ddp/backend/nccl_library.h"

#include <c10/core/Stream.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <functional>
#include <string>

namespace lockstep {

// An NCCL backend for `rank` of `world_size` on GPU `device_index`, whose ranks meet in `store`,
// of this backend alone. Sets the variables of ddp/backend/nccl_settings.h that the environment
// does not have. Touches no GPU and does not block: NCCL connects at the first collective, or at
// connect_nccl(). Splitting it connects a new one. Its destructor waits until this rank's work is
// over and for its peers for up to three seconds, and leaves nothing running on the GPU.
//
// A collective that fails (an error of the network, a peer that died, or `timeout` and ten seconds)
// is aborted by NCCL's watchdog, and then looks like one that has ended well, with any bytes in its
// tensors: ask failure_of() before its result is used.
//
// Local. Throws std::exception where usable_gpus() has a problem.
c10::intrusive_ptr<c10d::Backend> make_nccl_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                    int rank, int world_size, int device_index,
                                                    std::chrono::milliseconds timeout);

// Collective: blocks until every rank has connected and a first all-reduce has passed, so that what
// NCCL dislikes is said here. `backend` is one of make_nccl_backend()'s, not one that wraps it.
// `told` is asked again and again whether a peer told that it cannot, and why: empty while nobody
// has. Throws that, or what NCCL says, after `time` at the latest; what is left of a call that NCCL
// does not return from is then a thread, with the backend, which is of no use any more.
void connect_nccl(const c10::intrusive_ptr<c10d::Backend>& backend, int device_index,
                  std::chrono::milliseconds time, const std::function<std::string()>& told = {});

// Has `stream`, of a GPU, stand still for about `time` before what is submitted to it next: what a
// program forgot to wait for is then really late. Local; the host goes on. Throws std::exception
// where usable_gpus() has a problem.
void hold_up_cuda(const c10::Stream& stream, std::chrono::milliseconds time);

// Why `backend` can carry nothing any more, as a sentence; empty where it can, or does not tell
// (Gloo's failures are those of its works). For NCCL: ask it of a work that has ended. Local.
std::string failure_of(c10d::Backend& backend);

// Ends what is under way on `backend`, for good: works end, a GPU is no longer kept busy, and
// destructors wait for nobody. Blocks for up to ten seconds; false where it was not over then,
// and goes on by itself. Nothing on backends that cannot (Gloo). Local; does not throw.
bool abort_backend(const c10::intrusive_ptr<c10d::Backend>& backend);

}  // namespace lockstep
