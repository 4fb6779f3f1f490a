#include "cli/commands/commands.h"
#include "cli/exit_codes.h"
#include "cli/known.h"
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

int list(const Known& known, const Selection& selection) {
  for (const auto& scenario : selected(known.scenarios, selection)) {
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
  add_selection(*command, *selection);
  command->callback([selection, &known, &status] { status = list(known, *selection); });
}

}  // namespace lockstep::cli
