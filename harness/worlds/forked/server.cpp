#include "harness/worlds/forked/server.h"

#include "harness/cases/tier.h"
#include "harness/worlds/forked/cold.h"
#include "harness/worlds/forked/warm.h"
#include "harness/worlds/sim/sim.h"

namespace lockstep {

ForkedServer::ForkedServer(const std::vector<Scenario>& scenarios, const Subjects& subjects,
                           const ForkedOptions& options, std::shared_ptr<LaneMemory> memory)
    : workplace_(scenarios, subjects, options, std::move(memory)) {
  tiers_[kCold.name] = std::make_unique<ColdServer>(workplace_, kept_);
  tiers_[kWarm.name] = std::make_unique<WarmServer>(workplace_, kept_);
  tiers_[kSim.name] = std::make_unique<SimServer>(workplace_, kept_);
}

std::string ForkedServer::serve(const std::string& text, int stop_descriptor) {
  const auto request = lane_request_in(text);
  if (request.keep) {
    workplace_.capture->keep(request.keep->folder);
    return "";
  }
  workplace_.scenario(request.run->scenario);  // throws the error for the runner
  workplace_.subject(request.run->subject);
  return text_of(tiers_.at(request.run->tier)->run(*request.run, text, stop_descriptor));
}

void ForkedServer::finish() {
  kept_.end_all();
  workplace_.remove_scratch();
}

}  // namespace lockstep
