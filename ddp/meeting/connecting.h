#pragma once

#include "ddp/meeting/environment.h"

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <functional>
#include <string>

namespace lockstep {

// Behind meeting: lets `connect` open this rank's connections to the others, and blocks until all
// ranks have done so, so that nobody works, fails and leaves while others still try to connect to
// it, who would not be told. Collective. Throws std::runtime_error with one sentence on every rank:
// what the first rank says that could not connect, or, when `timeout` has passed, which ranks did
// not, or are silent; and what the store throws. `connect` runs in a thread, which is left behind
// where another rank fails or the time is up: it must own all that it touches. What it throws goes
// on behind the words "rank 1 cannot connect ".
void connect_in(const c10::intrusive_ptr<c10d::Store>& store, const Standing& standing,
                std::chrono::milliseconds timeout, const std::function<void()>& connect);

// What connect_in() is about to throw on every rank, for `connect` where it may block for long;
// empty while there is nothing to tell, or no store. Local.
std::string told_of_failed_connection(c10d::Store& store);

}  // namespace lockstep
