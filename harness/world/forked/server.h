// The server side of a forked lane: how its server process handles a request.
#pragma once

#include "harness/core/scenario.h"
#include "harness/process/affinity.h"
#include "harness/process/child_group.h"
#include "harness/world/forked/capture.h"
#include "harness/world/forked/conversation.h"
#include "harness/world/forked/kept_group.h"
#include "harness/world/forked/memory.h"
#include "harness/world/forked/rank.h"
#include "harness/world/scratch.h"
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

  // A request that came over a network: to run a rank of a launched world, or to look at what ran,
  // and nothing else.
  std::string serve_remote(const std::string& request, int stop_descriptor);
  void finish();

 private:
  // A world kept between cases; its processes die with it.
  struct KeptWorld {
    std::shared_ptr<Capture> capture;  // of its ranks
    std::unique_ptr<KeptGroup> group;
    int64_t used = 0;  // when, as a count of cases
  };

  CaseReply play_cold(const CaseRequest& request, int stop_descriptor);
  std::unique_ptr<ForkedRendezvous> rendezvous_of(const CaseRequest& request) const;
  void wait_until_all_are_late(int socket) const;
  std::string look(const LookRequest& request) const;
  CaseReply play_warm(const CaseRequest& request, int stop_descriptor);
  CaseReply play_sim(const CaseRequest& request, int stop_descriptor);
  CaseReply play_in_host(const CaseRequest& request, int stop_descriptor);
  // Null if the lane was stopped meanwhile.
  KeptWorld* warm_world(const CaseRequest& request, Clock::time_point deadline,
                        int stop_descriptor);
  KeptWorld* host_for(int size, Clock::time_point deadline, int stop_descriptor);
  KeptWorld* ready(KeptWorld& kept, Clock::time_point deadline, int stop_descriptor,
                   const std::string& what);
  KeptWorld make_warm_world(const CaseRequest& request, int stop_descriptor);
  KeptWorld make_host(int ranks_most, int stop_descriptor);
  std::vector<const KeptGroup*> kept_groups() const;
  // Sets the group and the stacks of `reply`, by process.
  void run_on_kept(KeptWorld& kept, const CaseRequest& request, int stop_descriptor,
                   CaseReply& reply);
  // Adds the stacks of late processes, by their index in a group, to `reply`.
  std::function<void(const std::vector<std::pair<int, pid_t>>&)> look_at_stacks(CaseReply& reply);
  void add_stacks_of_crashes(CaseReply& reply) const;
  int end_kept_worlds();
  std::optional<Order> next_order(KeptSocket& socket) const;
  void make_room(int size);
  const Scenario& scenario(const std::string& name) const;
  const DeviceBackend* device_backend(const CaseRequest& request) const;

  std::vector<Scenario> scenarios_;
  Subjects subjects_;
  ForkedOptions options_;
  std::shared_ptr<LaneMemory> memory_;
  std::shared_ptr<Capture> capture_ = std::make_shared<Capture>();  // of the last case
  std::optional<ScratchFolder> scratch_;                            // once prepared
  std::optional<SingleThreaded> alone_;                             // likewise
  std::map<std::pair<int, std::string>, KeptWorld> warm_;           // by size and backend
  std::optional<KeptWorld> host_;                                   // of simulated worlds
  int host_ranks_most_ = 0;
  int64_t cases_ = 0;
  Affinity affinity_;
};

}  // namespace lockstep
