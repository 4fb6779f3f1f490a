#pragma once

#include "ddp/base/environment.h"
#include "ddp/rendezvous/launcher.h"
#include "ddp/rendezvous/listening.h"

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <string>

namespace lockstep {

// The c10d::TCPStore at a rendezvous address: rank 0 opens it there, unless the launcher serves
// one, and the others connect to it. If rank 0 finds the port taken by a store, another process is
// rank 0 too, or has had its rendezvous there: it becomes a client as well, and the rendezvous
// reports that on all ranks.
//
// Blocks until the store answers or `timeout` has passed. Throws std::runtime_error, whose message
// distinguishes an address where no process listens from one where a process listens that is no
// store.
c10::intrusive_ptr<c10d::Store> open_store(const RendezvousAddress& point,
                                           const RankAndSize& position,
                                           std::chrono::milliseconds timeout);

// Serves a c10d::TCPStore from a thread of this process on a socket that listens at `point`, which
// the store closes. Throws what c10d throws.
c10::intrusive_ptr<c10d::Store> serve_store(const RendezvousAddress& point,
                                            const StoreSocket& listening,
                                            std::chrono::milliseconds timeout);

// The process that serves the store: "rank 0, which holds it,".
std::string holder_of(const RendezvousAddress& point);

}  // namespace lockstep
