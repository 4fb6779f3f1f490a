#include "cli/commands/commands.h"
#include "cli/exit_codes.h"
#include "cli/known.h"
#include "cli/output/report_files.h"
#include "cli/print.h"
#include "cli/run/run_campaign.h"
#include "cli/run/selection.h"
#include "harness/base/characters.h"
#include "harness/base/text.h"
#include "reports/findings/text.h"

#include <algorithm>

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

std::string json_text(const std::vector<Scenario>& scenarios) {
  Json all = Json::array();
  for (const auto& scenario : scenarios) all.push_back(json_of(scenario));
  return Json{{"version", 1}, {"scenarios", all}}.dump(2) + "\n";
}

int list(const Known& known, const Selection& selection, const std::string& json) {
  const auto scenarios = selected(known.scenarios, selection);
  if (!json.empty() || text_is_on_stderr()) {
    const auto text = json_text(scenarios);
    write_report(json, text);
    if (text_is_on_stderr()) print_for_programs(text);
  }
  for (const auto& scenario : scenarios) {
    std::string facts;
    if (!scenario.tags.empty()) facts = "tags " + joined(scenario.tags, ", ") + "   ";
    facts += "tiers " + joined(names_of_tiers(), ", ") + "   backends " +
             joined(names_of(known.backends), ", ") + "   cases " + cases_text(scenario);
    print(scenario.name + "\n    " + scenario.claim + "\n    " + facts + "\n");
  }
  return kHeld;
}

int list_course(const Known& known) {
  const auto& course = known.course;
  if (course.empty()) throw NothingSelected("this program has no course");
  std::vector<std::vector<std::string>> lines;
  for (size_t i = 0; i < course.size(); ++i)
    lines.push_back({std::to_string(i + 1) + ". " + course[i].title,
                     shell_word(known.program) + " " + course[i].command,
                     "docs/course/" + course[i].page});
  // The commands are aligned to the left, so that they can be read and copied.
  size_t widest = 0;
  for (const auto& line : lines) widest = std::max(widest, line[1].size());
  for (auto& line : lines) line[1].append(widest - line[1].size(), ' ');
  print(joined(reports::in_columns(lines), "\n") + "\n");
  return kHeld;
}

}  // namespace

void add_list(CLI::App& app, const Known& known, int& status) {
  auto* command = app.add_subcommand("list", "scenarios with claim, tags, tiers, backends");
  const auto selection = std::make_shared<Selection>();
  const auto json = std::make_shared<std::string>();
  add_selection(*command, *selection);
  const auto course = std::make_shared<bool>(false);
  const auto option = value_options_of(*command);
  option("--json", *json, "FILE", "write names, claims and tags as JSON too");
  add_format(*command);
  command->add_flag("--course", *course, "the course in fourteen steps instead: docs/course");
  command->callback([=, &known, &status] {
    const bool selects = !selection->patterns.empty() || !selection->excluded.empty() ||
                         !selection->tags.empty() || !selection->not_tags.empty();
    if (*course && (selects || !json->empty() || text_is_on_stderr()))
      throw UsageError("--course lists the course: it takes no selection and no file");
    status = *course ? list_course(known) : list(known, *selection, *json);
  });
}

}  // namespace lockstep::cli
