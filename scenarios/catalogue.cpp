#include "scenarios/catalogue.h"

#include <stdexcept>

#define SCENARIOS(family, file)                    \
  namespace lockstep::scenarios::family##_##file { \
    std::vector<Scenario> all();                   \
  }
#include "scenarios/catalogue.def"
#undef SCENARIOS

namespace lockstep {

std::vector<Scenario> catalogue() {
  std::vector<Scenario> every;
  const auto add = [&every](const std::vector<Scenario>& some) {
    every.insert(every.end(), some.begin(), some.end());
  };
#define SCENARIOS(family, file) add(scenarios::family##_##file::all());
#include "scenarios/catalogue.def"
#undef SCENARIOS
  return every;
}

Scenario scenario_in_catalogue(const std::string& name) {
  for (const auto& each : catalogue())
    if (each.name == name) return each;
  throw std::out_of_range("no scenario is named " + name);
}

}  // namespace lockstep
