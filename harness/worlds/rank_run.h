// One case on one rank, in whatever world.
#pragma once

#include "harness/rank/injector.h"
#include "harness/rank/journal.h"
#include "harness/rank/rank_context.h"
#include "harness/rank/tap.h"
#include "harness/worlds/forked/conversation.h"

#include <filesystem>
#include <memory>
#include <span>
#include <vector>

namespace lockstep {

// The parts that a world gives one of its ranks for a case.
struct RankRunParts {
  int rank = 0;
  int size = 1;
  std::span<std::byte> journal;
  c10::Device device = c10::kCPU;
  c10::intrusive_ptr<c10d::Store> store;
  // A group over `ranks`, this one among them, whose collectives go into `log`. Collective.
  std::function<c10::intrusive_ptr<c10d::ProcessGroup>(const std::vector<int>& ranks,
                                                       const std::shared_ptr<TapLog>& log)>
      make_group;
  std::filesystem::path scratch;  // made by the first rank that wants it
  // Called once the program has returned: what it did wrong that no record shows.
  std::function<std::string()> device_error = {};
  bool call_sites = true;  // collectives are recorded with where they were issued from
  PlannedFailures planned_failures = fault_actions_of_this_process();
  TapLog::Clock clock = TapLog::monotonic_ns;
};

// From the first record to the ending.
class RankRun {
 public:
  // The assignment outlives the run.
  RankRun(const CaseAssignment& assignment, RankRunParts parts);

  // Runs the program and records how it ended.
  Ending run();

  // Records how the rank ended, for one whose program will not return.
  void end(const Ending& ending);

  // Collectives issued and not done; call it after the run.
  size_t pending_collectives() const;

 private:
  c10::intrusive_ptr<c10d::ProcessGroup> group_of(const std::vector<int>& ranks);

  const CaseAssignment& assignment_;
  const RankRunParts parts_;
  JournalWriter journal_;
  Injector injector_;
  CallSites sites_;
  std::vector<std::shared_ptr<TapLog>> logs_;
  RankContext here_;
};

// True for a program that returned or refused.
bool ended_well(const Ending& ending);

}  // namespace lockstep
