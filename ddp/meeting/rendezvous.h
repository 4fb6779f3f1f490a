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
// Collective; blocks until all `world_size` ranks are here or `timeout` has passed, and where they
// do not meet up to two seconds longer, so that all have read why before the one leaves that holds
// the store. Throws DisagreementError, with the same sentence on every rank that is here, for a
// store that was used before, a rank that came twice, ranks that were told different world sizes or
// have different versions or backends, and an objection; a process that comes when the ranks have
// met has a sentence of its own. Throws std::runtime_error when the time is up, naming the ranks
// that came and those that did not, or of which nothing more was heard; and what the store throws.
void meet_in(c10d::Store& store, const Standing& standing, std::chrono::milliseconds timeout,
             const Introduction& introduction = {});

// Rank 0 reads what every rank says and answers them all. Collective; blocks until all have read
// the answer or `timeout` has passed. Behind meet_in(), once in a store. Throws what the store
// throws; on rank 0 what `answer` throws.
std::string ask_rank_zero(
    c10d::Store& store, const Standing& standing, std::chrono::milliseconds timeout,
    const std::string& said,
    const std::function<std::string(const std::vector<std::string>& said)>& answer);

}  // namespace lockstep
