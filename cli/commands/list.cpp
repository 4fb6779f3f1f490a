#include "cli/commands/commands.h"
#include "cli/exit_codes.h"
#include "cli/known.h"
#include "cli/play.h"
#include "cli/print.h"
#include "cli/selection.h"
#include "harness/core/text.h"

namespace lockstep::cli {

namespace {

std::string cases_text(const Scenario& scenario) {
  const auto every = scenario.every().size();
  std::vector<std::string> parts;
  if (every > 0) parts.push_back(with_commas(static_cast<int64_t>(every)) + " exhaustive");
  if (scenario.draws > 0) parts.push_back(with_commas(scenario.draws) + " drawn");
  return joined(parts, " + ");
}

Json json_of(const Scenario& scenario) {
  return {{"name", scenario.name},
          {"claim", scenario.claim},
          {"tags", scenario.tags},
          {"exhaustive_cases", scenario.every().size()},
          {"drawn_cases", scenario.draws}};
}

void write_json(const std::vector<Scenario>& scenarios, const std::string& file) {
  Json all = Json::array();
  for (const auto& scenario : scenarios) all.push_back(json_of(scenario));
  write_report(file, Json{{"version", 1}, {"scenarios", all}}.dump(2) + "\n");
}

int list(const Known& known, const Selection& selection, const std::string& json) {
  const auto scenarios = selected(known.scenarios, selection);
  if (!json.empty()) write_json(scenarios, json);
  for (const auto& scenario : scenarios) {
    std::string facts;
    if (!scenario.tags.empty()) facts = "tags " + joined(scenario.tags, ", ") + "   ";
    facts += "tiers " + joined(names_of_tiers(), ", ") + "   backends " +
             joined(names_of(known.backends), ", ") + "   cases " + cases_text(scenario);
    print(scenario.name + "\n    " + scenario.claim + "\n    " + facts + "\n");
  }
  return kHeld;
}

}  // namespace

void add_list(CLI::App& app, const Known& known, int& status) {
  auto* command = app.add_subcommand("list", "scenarios with claim, tags, tiers, backends");
  const auto selection = std::make_shared<Selection>();
  const auto json = std::make_shared<std::string>();
  add_selection(*command, *selection);
  const auto option = text_options_of(*command);
  option("--json", *json, "FILE", "write names, claims and tags as JSON too");
  command->callback([=, &known, &status] { status = list(known, *selection, *json); });
}

}  // namespace lockstep::cli
