#pragma once

#include "ddp/environment.h"

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <string>

namespace lockstep {

// Before ranks exchange addresses through a store: makes sure that they are the ranks of one world
// and that nobody met there before. Old addresses in a store lead to peers that are gone, or to
// another job; two processes with one rank would overwrite each other's.
//
// `version` is that of the library. Whoever cannot take part says why in `objection`.
//
// Collective; blocks until all `world_size` ranks are here or `timeout` has passed. Throws
// DisagreementError, with the same sentence on every rank that is here, for a store that was used
// before, a rank that came twice, ranks that were told different world sizes or have different
// versions, and an objection. Throws what the store throws, and std::runtime_error naming the ranks
// that came and those that did not when the time is up.
void meet_in(c10d::Store& store, const Standing& standing, std::chrono::milliseconds timeout,
             const std::string& version = "", const std::string& objection = "");

// Behind connecting: blocks until all `world_size` ranks are here, so that nobody works, fails and
// leaves while others still try to connect to it, who would not be told. Collective. Throws what
// the store throws, also when `timeout` has passed.
void wait_until_connected(c10d::Store& store, int world_size, std::chrono::milliseconds timeout);

}  // namespace lockstep
