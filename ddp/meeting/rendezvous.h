#pragma once

#include "ddp/meeting/environment.h"

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace lockstep {

// What a rank says of itself when it comes.
struct Introduction {
  std::string version;           // of the library; equal on all ranks
  std::string backends;          // that carry its tensors; equal on all ranks
  std::string backends_because;  // for the sentence, where they are not: why it has these
  std::string objection;         // why it cannot take part; empty: it can
};

// Before ranks exchange addresses through a store: makes sure that they are the ranks of one world
// and that nobody met there before. Old addresses in a store lead to peers that are gone, or to
// another job; two processes with one rank would overwrite each other's.
//
// Collective; blocks until all `world_size` ranks are here or `timeout` has passed. Throws
// DisagreementError, with the same sentence on every rank that is here, for a store that was used
// before, a rank that came twice, ranks that were told different world sizes or have different
// versions or backends, and an objection. Throws what the store throws, and std::runtime_error
// naming the ranks that came and those that did not when the time is up.
void meet_in(c10d::Store& store, const Standing& standing, std::chrono::milliseconds timeout,
             const Introduction& introduction = {});

// Rank 0 reads what every rank says and answers them all. Collective; blocks until rank 0 has
// answered or `timeout` has passed. Behind meet_in(), once in a store. Throws what the store
// throws; on rank 0 what `answer` throws.
std::string ask_rank_zero(
    c10d::Store& store, const Standing& standing, std::chrono::milliseconds timeout,
    const std::string& said,
    const std::function<std::string(const std::vector<std::string>& said)>& answer);

// Leaves the sentence of the first rank that could not connect where the others find it, and
// returns the first rank's: theirs is that a peer does not answer. Local; returns `sentence` where
// the store does not answer either.
std::string tell_of_failed_connection(c10d::Store& store, const std::string& sentence);

// Behind connecting: blocks until all `world_size` ranks are here, so that nobody works, fails and
// leaves while others still try to connect to it, who would not be told. Collective. Throws what
// the store throws, also when `timeout` has passed.
void wait_until_connected(c10d::Store& store, int world_size, std::chrono::milliseconds timeout);

}  // namespace lockstep
