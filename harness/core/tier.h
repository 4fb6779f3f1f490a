// Where a case runs. A tier brings a world of ranks to life, lets every rank run the scenario's
// program on the case, and returns what they recorded.
#pragma once

#include "harness/core/scenario.h"

#include <chrono>
#include <filesystem>
#include <memory>

namespace lockstep {

// Never part of a case: the same case runs in every setting.
struct Setting {
  std::string subject = "lockstep", tier = "cold", backend = "gloo";
  bool operator==(const Setting&) const = default;
};

// How a case is played; never part of the case either.
struct PlayOptions {
  std::chrono::milliseconds limit{};  // for one case, from the moment its world starts
  // Collectives of simulated worlds, too, are on record with where they were issued from. It takes
  // a tenth of their time; in other worlds it costs little, and they always are.
  bool call_sites = false;
};

// The tier itself broke (its processes were killed from outside, the machine is out of memory):
// says nothing about the case.
struct TierError : std::runtime_error {
  using runtime_error::runtime_error;
};

// As above, for good: this tier plays nothing any more.
struct TierLost : TierError {
  using TierError::TierError;
};

// One lane: plays one case at a time. Lanes are made before the first thread of the program, and
// from then on each is used by one thread.
class Tier {
 public:
  virtual ~Tier() = default;

  // Blocks until every rank is gone, however it ended. Throws TierError, or TierLost of it;
  // Interrupted after stop().
  virtual History play(const Scenario& scenario, const Case& c, const Setting& setting,
                       const PlayOptions& options) = 0;

  // What the ranks of the last case wrote to their standard output and error: two files a rank,
  // rank0.out, rank0.err, ... in `folder`, which is made. Empty files are left out. Of a rank that
  // was late also rank0.stacks: where its threads stood at the deadline, the main one first. Where
  // ranks part in `history`, which the case gave, also call_sites.txt: where each issued what it
  // did there, a line a rank with its stack set in below.
  virtual void keep_output(const std::filesystem::path& folder, const History& history) = 0;

  // Ends the case being played, from any thread; its world is killed as a group.
  virtual void stop() = 0;
};

struct Interrupted : std::runtime_error {
  Interrupted() : runtime_error("interrupted") {}
};

}  // namespace lockstep
