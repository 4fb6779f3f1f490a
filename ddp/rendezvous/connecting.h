#pragma once

#include "ddp/base/environment.h"

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <functional>
#include <string>

namespace lockstep {

// Follows rendezvous_in(): lets `connect` open this rank's connections to the others, and blocks
// until all ranks have done so. Otherwise a rank could work, fail and exit while others still try
// to connect to it, and they would not learn why. Collective. Throws std::runtime_error with one
// sentence on every rank: the error of the first rank that could not connect, or, when `timeout`
// has passed, which ranks have not connected or do not answer; and what the store throws. `connect`
// runs in a thread, which is left behind where another rank fails or the timeout passes: it must
// own all that it touches. Its error's text follows the words "rank 1 cannot connect ".
void connect_in(const c10::intrusive_ptr<c10d::Store>& store, const RankAndSize& position,
                std::chrono::milliseconds timeout, const std::function<void()>& connect);

// The error of a rank that could not connect, for `connect` to poll where it may block for long;
// empty while there is none, or no store. Local.
std::string failed_connection(c10d::Store& store);

}  // namespace lockstep
