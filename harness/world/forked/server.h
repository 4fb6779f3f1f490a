// The other side of a forked lane: what its server process does with a request.
//
// Runner and server share one region of memory: the meeting, the store, and a journal for each rank
// of the largest world.
#pragma once

#include "harness/core/scenario.h"
#include "harness/process/child_group.h"
#include "harness/process/journal.h"
#include "harness/process/shared_memory.h"
#include "harness/world/forked/capture.h"
#include "harness/world/forked/conversation.h"
#include "harness/world/forked/rank.h"
#include "harness/world/tiers.h"

#include <map>

namespace lockstep {

// Where what is in the region of a lane.
struct LaneMemory {
  explicit LaneMemory(const ForkedOptions& options);
  SharedMemory region;
  Meeting& meeting;
  std::span<std::byte> store;
  std::vector<std::span<std::byte>> journals;  // by rank
};

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
  // A warm world. Its ranks die with it.
  struct StandingWorld {
    std::vector<Descriptor> sockets;  // by rank
    std::shared_ptr<Capture> capture;
    std::unique_ptr<ChildGroup> ranks;
    int64_t used = 0;  // when, as a count of cases
  };

  PlayReply play_cold(const PlayRequest& request, int stop_descriptor);
  PlayReply play_warm(const PlayRequest& request, int stop_descriptor);
  // Null if the lane was stopped meanwhile.
  StandingWorld* standing_world(int size, Clock::time_point deadline, int stop_descriptor);
  StandingWorld make_standing_world(int size, int stop_descriptor);
  int stand_rank(int rank, int size, int socket);
  RankOrder order_in(const std::string& text) const;
  void make_room(int size);
  const Scenario& scenario(const std::string& name) const;

  std::vector<Scenario> scenarios_;
  Subjects subjects_;
  ForkedOptions options_;
  std::shared_ptr<LaneMemory> memory_;
  std::shared_ptr<Capture> capture_ = std::make_shared<Capture>();  // of the last case
  std::filesystem::path scratch_;
  std::map<int, StandingWorld> standing_;  // by size
  int64_t cases_ = 0;
};

}  // namespace lockstep
