// The runner's side of a tier whose ranks live in processes that a lane's server has forked.
#pragma once

#include "harness/cases/tier.h"
#include "harness/worlds/forked/lane.h"

#include <memory>

namespace lockstep {

class ForkedTier : public Tier {
 public:
  ForkedTier(const TierTraits& traits, std::shared_ptr<Lane> lane)
      : traits_(traits), lane_(std::move(lane)) {}

  History run(const Scenario& scenario, const Case& c, const Setting& setting,
              const CaseRunOptions& options) override;
  CaseStacks keep_output(const std::filesystem::path& folder, const History& history) override {
    return lane_->keep_output(folder, history);
  }
  // For good, and for all tiers of the lane.
  void stop() override { lane_->stop(); }

 protected:
  Lane& lane() const { return *lane_; }

  // Throws TierError where this tier has no such backend, or not so many ranks.
  CaseRequest request_for(const Scenario& scenario, const Case& c, const Setting& setting,
                          const CaseRunOptions& options) const;

 private:
  const TierTraits& traits_;
  const std::shared_ptr<Lane> lane_;
};

}  // namespace lockstep
