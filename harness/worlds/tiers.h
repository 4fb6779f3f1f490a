// The tiers of this build, as lanes: each runs one case at a time. No torch.
//
// Make lanes first thing, before the program calls anything of LibTorch: each lane forks its server
// process then.
#pragma once

#include "harness/cases/tier.h"
#include "harness/process/single_threaded.h"
#include "harness/worlds/devices/backends.h"
#include "harness/worlds/subjects.h"

#include <memory>
#include <optional>
#include <vector>

namespace lockstep {

struct ForkedOptions {
  int ranks_most = 32;                      // larger worlds throw TierError
  size_t journal_bytes = size_t{64} << 20;  // room for the records of one rank; reserved, not used
  size_t store_bytes = size_t{16} << 20;    // room for the rendezvous store of a world
  std::chrono::milliseconds grace{1000};    // time for the others to end after a rank ended badly
  std::filesystem::path scratch = {};       // where scratch folders go; empty: the system's
  bool cure_gloo_stalls = true;             // Note [Gloo's stall]
  KnownBackends backends = own_backends();  // what a setting may name
  std::optional<int> core = {};             // core on which simulated worlds run, if only on one
};

// `lanes` lanes that run cold, warm and simulated worlds, as a setting's tier says. A cold world's
// ranks are forked for one case. A warm world is kept with its group, by its size, for the next
// case: before each case generator, grad mode and default dtype are restored. A rank that died,
// hung or threw, or left something behind (a thread, a descriptor, a process, a change of the
// environment, a collective under way) is the case's own verdict, and its world is discarded. A
// simulated world's ranks are threads of one process, of which one runs at a time, in an order and
// at times that the case decides; its collectives are carried in memory (docs/simulation.md). The
// scenarios and subjects are those known to the ranks: a lane runs no others. Throws TierError if
// the server processes cannot be made.
std::vector<std::unique_ptr<Tier>> forked_lanes(SingleThreaded alone,
                                                const std::vector<Scenario>& scenarios,
                                                const Subjects& subjects, int lanes,
                                                const ForkedOptions& options = {});

}  // namespace lockstep
