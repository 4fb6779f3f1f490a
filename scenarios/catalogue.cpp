#include "scenarios/catalogue.h"

#include <stdexcept>

#define SCENARIO(family, file, function)           \
  namespace lockstep::scenarios::family##_##file { \
    Scenario function();                           \
  }
#include "scenarios/catalogue.def"
#undef SCENARIO

namespace lockstep {

std::vector<Scenario> catalogue() {
  return {
#define SCENARIO(family, file, function) scenarios::family##_##file::function(),
#include "scenarios/catalogue.def"
#undef SCENARIO
  };
}

Scenario scenario_in_catalogue(const std::string& name) {
  for (const auto& each : catalogue())
    if (each.name == name) return each;
  throw std::out_of_range("no scenario is named " + name);
}

}  // namespace lockstep
