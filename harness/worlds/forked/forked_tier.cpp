#include "harness/worlds/forked/forked_tier.h"

#include "harness/base/text.h"

#include <algorithm>

namespace lockstep {

History ForkedTier::run(const Scenario& scenario, const Case& c, const Setting& setting,
                        const CaseRunOptions& options) {
  const auto request = request_for(scenario, c, setting, options);
  lane().affinity.unpin();
  return lane().run(request).history;
}

CaseRequest ForkedTier::request_for(const Scenario& scenario, const Case& c, const Setting& setting,
                                    const CaseRunOptions& options) const {
  const std::string own_backend = traits_.own_backend;
  const auto names = own_backend.empty() ? names_of(lane().options().backends)
                                         : std::vector<std::string>{own_backend};
  if (std::find(names.begin(), names.end(), setting.backend) == names.end())
    throw TierError("the " + setting.tier + " tier runs on " + joined(names, ", ") + ", not on '" +
                    setting.backend + "'");
  const int size = world_size(c), ranks_most = lane().options().ranks_most;
  if (traits_.ranks_are_processes && size > ranks_most)
    throw TierError("the " + setting.tier + " tier holds worlds of up to " +
                    std::to_string(ranks_most) + " ranks; this case of " + scenario.name +
                    " wants " + std::to_string(size));
  return {.scenario = c.scenario,
          .subject = setting.subject,
          .tier = setting.tier,
          .backend = setting.backend,
          .size = size,
          .time_limit = options.time_limit,
          .call_sites = options.call_sites,
          .case_value = c.value.dump()};
}

}  // namespace lockstep
