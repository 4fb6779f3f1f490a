#pragma once

#include "ddp/meeting/environment.h"
#include "ddp/meeting/launcher.h"

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <string>

namespace lockstep {

// The c10d::TCPStore at a meeting point: rank 0 opens it there, unless the launcher holds one, and
// the others connect to it. Where rank 0 finds the port taken by a store, another process is rank 0
// too, or has met others there: it becomes a client as well, so that meeting tells them all.
//
// Blocks until the store answers or `timeout` has passed. Throws std::runtime_error, which tells
// nobody from somebody who listens there and is no store.
c10::intrusive_ptr<c10d::Store> open_store(const MeetingPoint& point, const Standing& standing,
                                           std::chrono::milliseconds timeout);

// Whose process the store is in: "rank 0, which holds it,".
std::string holder_of(const MeetingPoint& point);

}  // namespace lockstep
