#include "cli/commands/commands.h"
#include "cli/exit_codes.h"
#include "cli/known.h"
#include "cli/print.h"
#include "cli/selection.h"
#include "harness/core/text.h"
#include "harness/engine/draw.h"
#include "harness/engine/schema.h"
#include "harness/engine/shown_fields.h"

#include <cmath>

namespace lockstep::cli {

namespace {

constexpr size_t kColumns = 102;

// " label text", broken at blanks; nothing for an empty text.
void print_part(const std::string& label, const std::string& text) {
  if (text.empty()) return;
  print("  " + label + std::string(16 - label.size(), ' ') + text + "\n", kColumns);
}

// With blanks, at which a line can be broken.
std::string spaced(const std::string& json) {
  std::string text;
  bool in_string = false;
  for (size_t i = 0; i < json.size(); ++i) {
    text += json[i];
    if (json[i] == '"' && (i == 0 || json[i - 1] != '\\')) in_string = !in_string;
    if (!in_string && (json[i] == ',' || json[i] == ':')) text += ' ';
  }
  return text;
}

int explain(const Known& known, const Scenario& scenario) {
  print(scenario.name + "\n");
  print_part("claim", scenario.claim);
  print_part("a pass means", scenario.exactness);
  print_part("source", scenario.source);
  print_part("usual mistake", scenario.usual_mistake);
  print_part("not covered", scenario.not_covered);
  print_part("must catch", joined(scenario.must_catch, ", "));
  print_part("smallest case", spaced(displayed_value(scenario, scenario.smallest()).dump()));
  for (const auto& [label, share] : scenario.required_shares)
    print_part(
        label == scenario.required_shares.front().label ? "must draw" : "",
        label + ", in " + std::to_string(std::lround(100 * share)) + " % of its drawn cases");
  if (!scenario.unused.empty()) print_part("does not use", joined(scenario.unused, ", "));
  print_part("run it", known.program + " run" +
                           (has_tag(scenario, "canary") ? "   (part of every full run)"
                                                        : " " + scenario.name));
  return kHeld;
}

}  // namespace

void add_explain(CLI::App& app, const Known& known, int& status) {
  auto* command = app.add_subcommand(
      "explain", "what a scenario checks, its source, the usual mistake, its smallest case");
  struct Flags {
    std::string name;
    bool shows_case = false, shows_schema = false;
  };
  const auto flags = std::make_shared<Flags>();
  command->add_option("NAME", flags->name, "a scenario, or the beginning of its name")
      ->required()
      ->type_name("");
  command->add_flag("--case", flags->shows_case,
                    "print its smallest case with every field, as a file that replay takes");
  command->add_flag("--schema", flags->shows_schema, "print the JSON schema of its case files");
  command->callback([flags, &known, &status] {
    if (flags->shows_case && flags->shows_schema)
      throw UsageError("--case and --schema exclude each other");
    const auto& scenario = scenario_named(known.scenarios, flags->name);
    if (flags->shows_case) print(case_file({.c = scenario.smallest()}));
    if (flags->shows_schema) print(schema_of_case_file(scenario).dump(2) + "\n");
    status = flags->shows_case || flags->shows_schema ? kHeld : explain(known, scenario);
  });
}

}  // namespace lockstep::cli
