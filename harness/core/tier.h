// Where a case runs. A tier creates a world of ranks, lets every rank run the scenario's program on
// the case, and returns what they recorded.
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

// How a case runs; never part of the case either.
struct CaseRunOptions {
  std::chrono::milliseconds limit{};  // for one case, from the moment its world starts
  // Simulated worlds, too, record the call sites of collectives. It takes a tenth of their time; in
  // other worlds it costs little, and they always record them.
  bool call_sites = false;
};

// The tier itself broke (its processes were killed from outside, the machine is out of memory):
// says nothing about the case.
struct TierError : std::runtime_error {
  using runtime_error::runtime_error;
};

// As above, for good: this tier runs nothing more.
struct TierLost : TierError {
  using TierError::TierError;
};

// One lane: runs one case at a time. Lanes are made before the first thread of the program, and
// from then on each is used by one thread.
class Tier {
 public:
  virtual ~Tier() = default;

  // Blocks until every rank is gone, however it ended. Throws TierError or its subclass TierLost;
  // Interrupted after stop().
  virtual History play(const Scenario& scenario, const Case& c, const Setting& setting,
                       const CaseRunOptions& options) = 0;

  // The output of the ranks of the last case: two files for each rank, rank0.out, rank0.err, ... in
  // `folder`, which is made. Empty files are left out. For a rank that was late also rank0.stacks:
  // the stacks of its threads at the deadline, the main one first. Where ranks diverge in
  // `history`, which the case gave, also call_sites.txt: the call site of what each issued there, a
  // line for each rank followed by its stack, indented.
  virtual void keep_output(const std::filesystem::path& folder, const History& history) = 0;

  // Ends the running case, from any thread; its world is killed as a group.
  virtual void stop() = 0;
};

struct Interrupted : std::runtime_error {
  Interrupted() : runtime_error("interrupted") {}
};

}  // namespace lockstep
