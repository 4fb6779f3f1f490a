// The server process of a lane: reads each request once and gives it to the tier that it names.
#pragma once

#include "harness/worlds/forked/kept_worlds.h"

#include <map>
#include <memory>
#include <string>

namespace lockstep {

// The server's side of a tier.
class TierServer {
 public:
  virtual ~TierServer() = default;

  // Runs a case. `text` is the request as it came, for processes that read it themselves. Ends soon
  // after `stop_descriptor` becomes readable.
  virtual CaseReply run(const CaseRequest& request, const std::string& text,
                        int stop_descriptor) = 0;
};

class ForkedServer {
 public:
  ForkedServer(const std::vector<Scenario>& scenarios, const Subjects& subjects,
               const ForkedOptions& options, std::shared_ptr<LaneMemory> memory);

  void prepare() { workplace_.prepare(); }
  std::string serve(const std::string& text, int stop_descriptor);
  void finish();

 private:
  Workplace workplace_;
  KeptWorlds kept_{workplace_};
  std::map<std::string, std::unique_ptr<TierServer>> tiers_;  // by name
};

}  // namespace lockstep
