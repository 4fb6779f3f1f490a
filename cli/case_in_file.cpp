#include "cli/case_in_file.h"

#include "cli/usage.h"
#include "harness/cases/shown_fields.h"

namespace lockstep::cli {

const Scenario& scenario_of(const Known& known, const std::string& name, const std::string& file) {
  std::vector<std::string> names;
  for (const auto& scenario : known.scenarios) {
    if (is_named(scenario, name)) return scenario;
    names.push_back(scenario.name);
  }
  throw UsageError(file + ": this program has no scenario '" + name + "'" +
                   did_you_mean(name, names));
}

std::pair<const Scenario&, SavedCase> read_case(const Known& known, const std::string& file) {
  const auto saved = read_case_file(file);
  const auto& scenario = scenario_of(known, saved.c.scenario, file);
  try {
    return {scenario, written_out(scenario, saved)};
  } catch (const FieldError& error) {
    throw UsageError(file + ": " + error.what());
  }
}

}  // namespace lockstep::cli
