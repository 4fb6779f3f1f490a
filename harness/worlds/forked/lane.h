// One lane: a server process and the memory that it shares with this one. The cold, warm and sim
// tiers of the lane use it in turn.
#pragma once

#include "harness/process/affinity.h"
#include "harness/process/zygote.h"
#include "harness/worlds/forked/histories.h"
#include "harness/worlds/forked/memory.h"

#include <atomic>

namespace lockstep {

class Lane {
 public:
  // Forks the server. `close_there` are descriptors of earlier lanes.
  Lane(const SingleThreaded& alone, const std::vector<Scenario>& scenarios,
       const Subjects& subjects, const ForkedOptions& options, std::span<const int> close_there);

  // The outcome of a case: its history, and the choices of its schedule, where they were requested.
  struct Outcome {
    History history;
    std::vector<sim::Choice> choices;
  };
  // As Tier::run.
  Outcome run(const CaseRequest& request);
  CaseStacks keep_output(const std::filesystem::path& folder, const History& history);

  // For good: this lane runs nothing more, and looks up no more lines of stacks. Any thread.
  void stop();

  const ForkedOptions& options() const { return options_; }
  int descriptor() const { return server_.descriptor(); }

  Affinity affinity;  // of the thread that runs cases

 private:
  History history(const CaseReply& reply);
  void release_memory(const CaseReply& reply) const;

  const ForkedOptions options_;
  std::shared_ptr<LaneMemory> memory_;
  std::atomic<bool> is_stopped_ = false;
  StacksByRank stacks_;            // of the last case
  std::vector<Sites> call_sites_;  // of the last case, by rank
  Zygote server_;
};

}  // namespace lockstep
