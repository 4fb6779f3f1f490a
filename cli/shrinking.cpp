#include "cli/shrinking.h"

namespace lockstep::cli {

namespace {

// Where a failure of that setting may show at less cost, cheapest first. A launched world has no
// other.
std::vector<Setting> cheaper_settings(const Setting& setting, const Known& known) {
  std::vector<Setting> cheaper;
  for (const auto& backend : known.backends)
    if (backend.name == setting.backend && backend.device) return cheaper;
  for (const auto& tier : known_tiers()) {
    if (tier.name == setting.tier) return cheaper;
    cheaper.push_back(setting_of(setting.subject, tier.name, setting.backend));
  }
  return cheaper;
}

}  // namespace

ShrinkOptions shrink_options(std::optional<std::chrono::milliseconds> time, const Known& known,
                             bool launched) {
  ShrinkOptions options;
  if (time) options.time = *time;
  if (!launched)
    options.cheaper = [&known](const Setting& setting) { return cheaper_settings(setting, known); };
  return options;
}

}  // namespace lockstep::cli
