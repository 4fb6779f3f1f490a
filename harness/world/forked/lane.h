// One lane of every tier whose ranks live in processes forked here: cold and warm ones over real
// Gloo, and simulated ones in a host. tiers.h makes the lanes.
#pragma once

#include "harness/process/zygote.h"
#include "harness/world/forked/server.h"

namespace lockstep {

class ForkedLane final : public Tier {
 public:
  // Forks the server. `close_there` are descriptors of earlier lanes.
  ForkedLane(const std::vector<Scenario>& scenarios, const Subjects& subjects,
             const ForkedOptions& options, std::span<const int> close_there);

  History play(const Scenario& scenario, const Case& c, const Setting& setting,
               const PlayOptions& options) override;
  void keep_output(const std::filesystem::path& folder, const History& history) override;

  // For good: this lane plays nothing any more.
  void stop() override;

  int descriptor() const { return server_.descriptor(); }

 private:
  struct Played {
    History history;
    std::vector<sim::Choice> choices;
  };
  void require_playable(const Scenario& scenario, const Case& c, const Setting& setting) const;
  Played play_once(const PlayRequest& request);
  History play_exhaustively(const Scenario& scenario, Case c, PlayRequest request);
  History history(const PlayReply& reply);
  void keep_call_sites(const std::filesystem::path& file, const History& history) const;
  void tidy(const PlayReply& reply) const;

  ForkedOptions options_;
  std::shared_ptr<LaneMemory> memory_;
  std::map<int, std::vector<ThreadStack>> stacks_;  // of the last case, by rank
  // Of the last case, by rank: the addresses of each call site, by its number.
  std::vector<std::map<int, std::vector<uint64_t>>> call_sites_;
  Affinity affinity_;  // of the thread that plays
  Zygote server_;
};

// How a rank ended: what its process did decides, and where that was an ordinary exit, or a kill
// after it had said how its program ended, its own word.
Ending merged_ending(const Ending& recorded, bool has_ending, bool overflowed,
                     const ChildEnd& process);

}  // namespace lockstep
