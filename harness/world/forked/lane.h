// One lane of every tier whose ranks are processes forked here: cold and warm ones over real Gloo,
// and simulated ones in a host. tiers.h makes the lanes.
#pragma once

#include "harness/process/zygote.h"
#include "harness/world/forked/histories.h"
#include "harness/world/forked/server.h"

namespace lockstep {

class ForkedLane final : public Tier {
 public:
  // Forks the server. `close_there` are descriptors of earlier lanes.
  ForkedLane(const SingleThreaded& alone, const std::vector<Scenario>& scenarios,
             const Subjects& subjects, const ForkedOptions& options,
             std::span<const int> close_there);

  History play(const Scenario& scenario, const Case& c, const Setting& setting,
               const CaseRunOptions& options) override;
  void keep_output(const std::filesystem::path& folder, const History& history) override;

  // For good: this lane runs nothing more.
  void stop() override;

  int descriptor() const { return server_.descriptor(); }

 private:
  struct Played {
    History history;
    std::vector<sim::Choice> choices;
  };
  void require_playable(const Scenario& scenario, const Case& c, const Setting& setting) const;
  Played play_once(const CaseRequest& request);
  History play_exhaustively(const Scenario& scenario, Case c, CaseRequest request);
  History history(const CaseReply& reply);
  void tidy(const CaseReply& reply) const;

  ForkedOptions options_;
  std::shared_ptr<LaneMemory> memory_;
  std::map<int, std::vector<ThreadStack>> stacks_;  // of the last case, by rank
  std::vector<Sites> call_sites_;                   // of the last case, by rank
  Affinity affinity_;                               // of the thread that runs cases
  Zygote server_;
};

}  // namespace lockstep
