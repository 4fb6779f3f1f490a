#pragma once

#include "ddp/backend/nccl_library.h"

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <functional>
#include <string>

namespace lockstep {

// An NCCL backend for `rank` of `world_size` on GPU `device_index`, whose ranks have their
// rendezvous in `store`, of this backend alone. Sets the variables of ddp/backend/nccl_settings.h
// that the environment does not have. Touches no GPU and does not block: NCCL connects at the first
// collective, or at connect_nccl(). Splitting it connects a new one. Its destructor waits until
// this rank's work is over and for its peers for up to three seconds, and leaves nothing running on
// the GPU.
//
// NCCL's watchdog aborts a collective that fails (an error of the network, a peer that died, or
// `timeout` and ten seconds). It then looks like one that succeeded, with any bytes in its tensors:
// call failure_of() before using its result.
//
// Local. Throws std::exception where usable_gpus() has a problem.
c10::intrusive_ptr<c10d::Backend> make_nccl_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                    int rank, int world_size, int device_index,
                                                    std::chrono::milliseconds timeout);

// Collective: blocks until every rank has connected and a first all-reduce has passed, so that
// NCCL's errors surface here. `backend` is one of make_nccl_backend()'s, not one that wraps it.
// Polls `peer_error`, which returns why a peer cannot connect, or an empty string. Throws that, or
// NCCL's error, after `time` at the latest; a call that NCCL does not return from leaves behind a
// thread with the backend, which is of no use any more.
void connect_nccl(const c10::intrusive_ptr<c10d::Backend>& backend, int device_index,
                  std::chrono::milliseconds time,
                  const std::function<std::string()>& peer_error = {});

// Why `backend` can carry nothing any more, as a sentence; empty where it can, or does not report
// it (Gloo's failures are those of its works). For NCCL: call it after a work has ended. Local.
std::string failure_of(c10d::Backend& backend);

// Aborts, for good, what is under way on `backend`: works end, a GPU is no longer kept busy, and
// destructors wait for no peer. Blocks for up to ten seconds; returns false if the abort was not
// over then, and it continues in the background. No effect on backends that cannot (Gloo). Local;
// does not throw.
bool abort_backend(const c10::intrusive_ptr<c10d::Backend>& backend);

}  // namespace lockstep
