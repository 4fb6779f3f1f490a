#include "cli/commands/commands.h"
#include "cli/exit_codes.h"
#include "cli/known.h"
#include "cli/print.h"
#include "cli/selection.h"
#include "harness/core/text.h"
#include "harness/engine/draw.h"

namespace lockstep::cli {

namespace {

constexpr size_t kColumns = 102;

// " label text", broken at blanks; nothing for an empty text.
void print_part(const std::string& label, const std::string& text) {
  if (text.empty()) return;
  print("  " + label + std::string(16 - label.size(), ' ') + text + "\n", kColumns);
}

int explain(const Known& known, const std::string& name) {
  const Scenario& scenario = scenario_named(known.scenarios, name);
  print(scenario.name + "\n");
  print_part("claim", scenario.claim);
  print_part("a pass means", scenario.exactness);
  print_part("source", scenario.source);
  print_part("usual mistake", scenario.usual_mistake);
  print_part("not covered", scenario.not_covered);
  print_part("must catch", joined(scenario.must_catch, ", "));
  print_part("smallest case", told_of(scenario.smallest()).dump());
  print_part("run it", known.program + " run" +
                           (has_tag(scenario, "canary") ? "   (part of every full run)"
                                                        : " " + scenario.name));
  return kHeld;
}

}  // namespace

void add_explain(CLI::App& app, const Known& known, int& status) {
  auto* command = app.add_subcommand(
      "explain", "what a scenario checks, its source, the usual mistake, its smallest case");
  const auto name = std::make_shared<std::string>();
  command->add_option("NAME", *name, "a scenario, or the beginning of its name")
      ->required()
      ->type_name("");
  command->callback([name, &known, &status] { status = explain(known, *name); });
}

}  // namespace lockstep::cli
