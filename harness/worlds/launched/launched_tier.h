// The launched tier, on rank 0: worlds whose ranks are spread over processes that a launcher has
// started, on one host or many. No torch.
#pragma once

#include "harness/worlds/forked/histories.h"
#include "harness/worlds/gloo/served_store.h"
#include "harness/worlds/launched/launched.h"
#include "harness/worlds/launched/messages.h"

#include <atomic>
#include <map>

namespace lockstep {

// Runs launched worlds of up to all ranks, on ranks 0 to W - 1 of those launched; a case that wants
// more is refused, with this reason. Every rank is forked for one case, and its groups are Gloo's
// between the processes' hosts. A process that dies, or cannot be reached for kSilenceMost, is
// TierLost: no other process can replace its rank.
class LaunchedTier final : public Tier {
 public:
  explicit LaunchedTier(LaunchedParts parts);
  ~LaunchedTier() override;

  History run(const Scenario& scenario, const Case& c, const Setting& setting,
              const CaseRunOptions& options) override;
  CaseStacks keep_output(const std::filesystem::path& folder, const History& history) override;
  void stop() override;

  // Sends all processes the end of the campaign, and blocks until they have left, a few seconds at
  // most. Without it the destructor reports to them that the campaign did not complete.
  void end(const CampaignEnd& how);

 private:
  using Clock = std::chrono::steady_clock;
  // How long a server may take beyond the deadline, or to reply at all: as for a forked lane.
  static constexpr std::chrono::seconds kAnswerSlack{60};
  // A journal of the size that a rank has, and the rest of a reply.
  static constexpr uint32_t kReplyBytesMost = 1u << 28;
  // A case under way. The ranks of the case are the first ones.
  struct Round {
    std::vector<std::optional<RankReply>> replies;  // by rank
    std::vector<bool> late;                         // at the deadline, and has reported so
    Clock::time_point deadline;                     // for each server that has not replied
    bool stop_is_sent = false;                      // all received a stop
    bool has_bad_end = false;                       // a rank ended badly
    std::string failure;                            // what a server could not do
    int awaited() const;
  };

  int size() const { return static_cast<int>(sockets_.size()); }
  const Handshake& member(int rank) const;
  std::vector<std::optional<DeviceAssignment>> device_assignments_for(
      const CaseRequest& request) const;
  std::string name_of_world() const {
    return "lockstep-" + parts_.own.token + "-" + std::to_string(cases_);
  }
  bool send(int rank, ServerWord word, const std::string& text = "");
  void lose(int rank, const std::string& how);
  Round run_round(RankRequest request, ServedStore& store);
  void receive_from(int rank, Round& round, ServedStore& store);
  void take_reply(int rank, const std::string& text, Round& round, ServedStore& store);
  void let_late_ones_go_on(Round& round);
  void cut(Round& round);
  void on_deadline(Round& round);
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
  std::vector<Sites> call_sites_;  // of the last case, by rank that ran
  StacksByRank stacks_;            // of the last case
};

}  // namespace lockstep
