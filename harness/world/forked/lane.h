// The forked tiers over real Gloo: cold, every case in processes forked for it, and warm, cases in
// processes that go on living with their group. tiers.h makes the lanes.
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
               Deadline deadline) override;
  void keep_output(const std::filesystem::path& folder) override;

  // For good: this lane plays nothing any more.
  void stop() override;

  int descriptor() const { return server_.descriptor(); }

 private:
  History history(const PlayReply& reply) const;
  void tidy(const PlayReply& reply) const;

  ForkedOptions options_;
  std::shared_ptr<LaneMemory> memory_;
  Zygote server_;
};

// How a rank ended: what its process did decides, and where that was an ordinary exit, or a kill
// after it had said how its program ended, its own word.
Ending merged_ending(const Ending& recorded, bool has_ending, bool overflowed,
                     const ChildEnd& process);

}  // namespace lockstep
