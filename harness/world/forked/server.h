// The other side of a cold lane: what its server process does with a request.
//
// Runner and server share one region of memory: the meeting, the store, and a journal for each rank
// of the largest world.
#pragma once

#include "harness/core/scenario.h"
#include "harness/process/child_group.h"
#include "harness/process/journal.h"
#include "harness/process/shared_memory.h"
#include "harness/world/forked/capture.h"
#include "harness/world/forked/rank.h"
#include "harness/world/tiers.h"

namespace lockstep {

// Where what is in the region of a lane.
struct LaneMemory {
  explicit LaneMemory(const ColdOptions& options);
  SharedMemory region;
  Meeting& meeting;
  std::span<std::byte> store;
  std::vector<std::span<std::byte>> journals;  // by rank
};

// A request to play a case, and what became of its processes. Both travel as JSON.
struct PlayRequest {
  Case c;
  std::string subject;
  std::chrono::milliseconds limit{};
};
struct PlayReply {
  GroupReport group;
  int left_running = 0;  // processes that were still there when every rank had gone
};
std::string play_request(const PlayRequest& request);
std::string keep_request(const std::filesystem::path& folder);
PlayReply play_reply(const std::string& text);

class ColdServer {
 public:
  ColdServer(const std::vector<Scenario>& scenarios, const Subjects& subjects,
             const ColdOptions& options, std::shared_ptr<LaneMemory> memory);

  void prepare();
  std::string serve(const std::string& request, int stop_descriptor);
  void finish();

 private:
  std::string play(const PlayRequest& request, int stop_descriptor);
  const Scenario& scenario(const std::string& name) const;

  std::vector<Scenario> scenarios_;
  Subjects subjects_;
  ColdOptions options_;
  std::shared_ptr<LaneMemory> memory_;
  Capture capture_;
  std::filesystem::path scratch_;
};

}  // namespace lockstep
