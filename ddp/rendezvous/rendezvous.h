#pragma once

#include "ddp/base/disagreement.h"
#include "ddp/base/environment.h"

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace lockstep {

// The message of a rank that arrives.
struct Introduction {
  // The values that must be equal on all ranks, and why this rank cannot take part, if it cannot.
  RankDescription description;
  std::string place;  // for `check_places`
};

// Returns why the ranks cannot have these places, given that of each rank; empty if they can.
using CheckPlaces = std::function<std::string(const std::vector<std::string>& places)>;

// Called before ranks exchange addresses through a store: makes sure that they are the ranks of one
// world and that no other world used the store before. Old addresses in a store lead to peers that
// are gone, or to another job; two processes with one rank would overwrite each other's. Returns
// the place of every rank.
//
// Collective; blocks until all `world_size` ranks have arrived or `timeout` has passed; if the
// rendezvous fails, up to two seconds longer, so that all have read why before the process exits
// that hosts the store. A rank that knows that the rendezvous will fail waits a second for the
// others, so that the sentence names them. Throws DisagreementError, with the same sentence on
// every rank that has arrived, for a store that was used before, a rank that arrived twice, a rank
// that cannot take part, ranks that disagree on the world size or on their descriptions, and what
// `check_places` returns; a process that arrives after the rendezvous receives a sentence of its
// own. Throws std::runtime_error when the time is up, naming the ranks that arrived and those that
// did not, or that no longer answered; and what the store throws.
std::vector<std::string> rendezvous_in(c10d::Store& store, const RankAndSize& position,
                                       std::chrono::milliseconds timeout,
                                       const Introduction& introduction = {},
                                       const CheckPlaces& check_places = {});

}  // namespace lockstep
