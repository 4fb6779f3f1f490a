#include "harness/cases/tier.h"

#include "harness/base/text.h"

#include <array>

namespace lockstep {

namespace {
constexpr std::array kTiers{kSim, kWarm, kCold, kLaunched};
}

std::span<const TierTraits> known_tiers() {
  return kTiers;
}

std::vector<std::string> names_of_tiers() {
  std::vector<std::string> names;
  for (const auto& tier : kTiers) names.emplace_back(tier.name);
  return names;
}

const TierTraits* find_tier(std::string_view name) {
  for (const auto& tier : kTiers)
    if (tier.name == name) return &tier;
  return nullptr;
}

const TierTraits& traits_of(const Setting& setting) {
  if (const auto* const tier = find_tier(setting.tier)) return *tier;
  const auto names = names_of_tiers();
  throw TierError("there is no tier '" + setting.tier + "'" + did_you_mean(setting.tier, names) +
                  "; known: " + joined(names, ", "));
}

}  // namespace lockstep
