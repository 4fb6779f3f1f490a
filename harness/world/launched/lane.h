// Rank 0's lane of launched worlds; launched.h makes it.
#pragma once

#include "harness/world/forked/gathering.h"
#include "harness/world/forked/histories.h"
#include "harness/world/launched/launched.h"

#include <atomic>

namespace lockstep {

class LaunchedLane final : public LaunchedTier {
 public:
  explicit LaunchedLane(LaunchedParts parts);
  ~LaunchedLane() override;

  History play(const Scenario& scenario, const Case& c, const Setting& setting,
               const PlayOptions& options) override;
  void keep_output(const std::filesystem::path& folder, const History& history) override;
  void stop() override;
  void end(const CampaignEnd& how) override;

 private:
  using Clock = std::chrono::steady_clock;
  // What a server may take beyond the deadline, or to answer at all: as of a forked lane.
  static constexpr std::chrono::seconds kAnswerSlack{60};
  // A case under way. Ranks of the case are the first of all.
  struct Round {
    std::vector<std::optional<PlayReply>> replies;  // by rank
    std::vector<bool> late;                         // at the deadline, and has told so
    Clock::time_point limit;                        // of whoever has not replied
    bool is_cut = false;                            // all were told to stop
    bool is_called_off = false;                     // a rank ended badly
    std::string failure;                            // what a server could not do
    int awaited() const;
  };

  int size() const { return static_cast<int>(sockets_.size()); }
  const Hello& member(int rank) const;
  std::vector<std::optional<DeviceSeat>> seats_for(const PlayRequest& request) const;
  bool send(int rank, ServerWord word, const std::string& text = "");
  void lose(int rank, const std::string& how);
  Round play_round(PlayRequest request, ServedStore& store);
  void hear(int rank, Round& round, ServedStore& store);
  void take_reply(int rank, const std::string& text, Round& round, ServedStore& store);
  void let_late_ones_go_on(Round& round);
  void cut(Round& round);
  void on_limit(Round& round);
  History history_of_round(Round round);
  std::string answer_of(int rank, const std::string& request);

  LaunchedParts parts_;
  std::vector<int> sockets_;  // by rank; not ours to close
  Descriptor wake_;           // readable once stopped
  std::atomic<bool> stopped_ = false;
  std::string lost_;  // why, once it is
  bool ended_ = false;
  bool clocks_differ_ = false;
  int64_t cases_ = 0;
  std::vector<Sites> call_sites_;                   // of the last case, by rank that was played
  std::map<int, std::vector<ThreadStack>> stacks_;  // of the last case, by rank
};

}  // namespace lockstep
