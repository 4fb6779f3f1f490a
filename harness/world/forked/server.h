// The other side of a forked lane: what its server process does with a request.
#pragma once

#include "harness/core/scenario.h"
#include "harness/process/affinity.h"
#include "harness/process/child_group.h"
#include "harness/world/forked/capture.h"
#include "harness/world/forked/conversation.h"
#include "harness/world/forked/memory.h"
#include "harness/world/forked/rank.h"
#include "harness/world/forked/standing.h"
#include "harness/world/tiers.h"

#include <map>
#include <optional>
#include <string>
#include <utility>

namespace lockstep {

// A request to write the output of the last case into `folder`.
std::string keep_request(const std::filesystem::path& folder);

class ForkedServer {
  using Clock = std::chrono::steady_clock;

 public:
  ForkedServer(const std::vector<Scenario>& scenarios, const Subjects& subjects,
               const ForkedOptions& options, std::shared_ptr<LaneMemory> memory);

  void prepare();
  std::string serve(const std::string& request, int stop_descriptor);
  void finish();

 private:
  // What lives on between cases; its processes die with it.
  struct Standing {
    std::shared_ptr<Capture> capture;  // of its ranks
    std::unique_ptr<StandingGroup> group;
    int64_t used = 0;  // when, as a count of cases
  };

  PlayReply play_cold(const PlayRequest& request, int stop_descriptor);
  std::unique_ptr<Gathering> gathering_of(const PlayRequest& request) const;
  std::filesystem::path scratch_of(const PlayRequest& request);
  void remove_scratch_abroad();
  void wait_until_all_are_late(int socket) const;
  std::string look(const LookRequest& request) const;
  PlayReply play_warm(const PlayRequest& request, int stop_descriptor);
  PlayReply play_sim(const PlayRequest& request, int stop_descriptor);
  PlayReply play_in_host(const PlayRequest& request, int stop_descriptor);
  // Null if the lane was stopped meanwhile.
  Standing* warm_world(const PlayRequest& request, Clock::time_point deadline, int stop_descriptor);
  Standing* host_for(int size, Clock::time_point deadline, int stop_descriptor);
  Standing* ready(Standing& standing, Clock::time_point deadline, int stop_descriptor,
                  const std::string& what);
  Standing make_warm_world(const PlayRequest& request, int stop_descriptor);
  Standing make_host(int ranks_most, int stop_descriptor);
  std::vector<const StandingGroup*> standing_groups() const;
  GroupReport play_standing(Standing& standing, const PlayRequest& request, int stop_descriptor,
                            PlayReply& reply);
  // Where those that are late stand, by what they are in a group; told to `reply`.
  std::function<void(const std::vector<std::pair<int, pid_t>>&)> look_at_stacks(PlayReply& reply);
  int end_standing();
  std::optional<Order> next_order(StandingSocket& socket) const;
  void make_room(int size);
  const Scenario& scenario(const std::string& name) const;
  const DeviceBackend* device_backend(const PlayRequest& request) const;

  std::vector<Scenario> scenarios_;
  Subjects subjects_;
  ForkedOptions options_;
  std::shared_ptr<LaneMemory> memory_;
  std::shared_ptr<Capture> capture_ = std::make_shared<Capture>();  // of the last case
  std::filesystem::path scratch_;
  std::filesystem::path scratch_abroad_;                  // of the last launched world
  std::map<std::pair<int, std::string>, Standing> warm_;  // by size and backend
  std::optional<Standing> host_;                          // of simulated worlds
  int host_ranks_most_ = 0;
  int64_t cases_ = 0;
  Affinity affinity_;
};

}  // namespace lockstep
