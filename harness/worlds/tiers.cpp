#include "harness/worlds/tiers.h"

#include "harness/worlds/forked/forked_tier.h"
#include "harness/worlds/sim/sim.h"

#include <map>
#include <sched.h>

namespace lockstep {

namespace {

// The tiers of one lane, of which one runs a case at a time.
class TiersOfLane final : public Tier {
 public:
  explicit TiersOfLane(const std::shared_ptr<Lane>& lane) {
    tiers_[kCold.name] = std::make_unique<ForkedTier>(kCold, lane);
    tiers_[kWarm.name] = std::make_unique<ForkedTier>(kWarm, lane);
    tiers_[kSim.name] = std::make_unique<SimTier>(lane);
    last_ = tiers_.begin()->second.get();
  }

  History run(const Scenario& scenario, const Case& c, const Setting& setting,
              const CaseRunOptions& options) override {
    const auto found = tiers_.find(setting.tier);
    if (found == tiers_.end())
      throw TierError("a forked lane runs cold, warm and sim worlds, not '" + setting.tier + "'");
    last_ = found->second.get();
    return last_->run(scenario, c, setting, options);
  }
  CaseStacks keep_output(const std::filesystem::path& folder, const History& history) override {
    return last_->keep_output(folder, history);
  }
  void stop() override { tiers_.begin()->second->stop(); }

 private:
  std::map<std::string, std::unique_ptr<Tier>> tiers_;  // by name
  Tier* last_;                                          // the one that ran the last case
};

std::vector<int> allowed_cores() {
  cpu_set_t allowed;
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(static_cast<size_t>(core), &allowed)) cores.push_back(core);
  return cores;
}

}  // namespace

std::vector<std::unique_ptr<Tier>> forked_lanes(SingleThreaded alone,
                                                const std::vector<Scenario>& scenarios,
                                                const Subjects& subjects, int lanes,
                                                const ForkedOptions& options) {
  std::vector<std::unique_ptr<Tier>> all;
  std::vector<int> descriptors;
  const auto cores = allowed_cores();
  for (int lane = 0; lane < lanes; ++lane) {
    auto own = options;
    if (!own.core && !cores.empty()) own.core = cores[static_cast<size_t>(lane) % cores.size()];
    const auto made = std::make_shared<Lane>(alone, scenarios, subjects, own, descriptors);
    descriptors.push_back(made->descriptor());
    all.push_back(std::make_unique<TiersOfLane>(made));
  }
  return all;
}

}  // namespace lockstep
