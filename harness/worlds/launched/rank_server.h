// The server process of a launched process: runs the ranks that rank 0's lane requests, each alone.
#pragma once

#include "harness/worlds/forked/kept_worlds.h"
#include "harness/worlds/launched/messages.h"

#include <memory>
#include <string>

namespace lockstep {

class RankServer {
 public:
  RankServer(const std::vector<Scenario>& scenarios, const Subjects& subjects,
             const ForkedOptions& options, std::shared_ptr<LaneMemory> memory);

  void prepare();
  // A request came over a network: every field is checked, and nothing else is done than what
  // messages.h lists.
  std::string serve(const std::string& text, int stop_descriptor);
  void finish() const { workplace_.remove_scratch(); }

 private:
  RankReply run(const RankRequest& request, int stop_descriptor);
  LookReply look(const LookRequest& request) const;

  Workplace workplace_;
  KeptWorlds kept_{workplace_};  // none: a launched world lives for one case
};

}  // namespace lockstep
