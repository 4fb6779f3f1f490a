// The sections of a run's page. `number` counts its pictures.
#pragma once

#include "reports/pages/run_page.h"
#include "reports/pictures/markup.h"

namespace lockstep::reports {

// Says what was not checked, a sentence each, with its reasons where there are several; never
// empty, since it may say that all was.
struct NotChecked {
  std::string sentence;
  std::vector<std::string> reasons = {};
  auto operator<=>(const NotChecked&) const = default;
};
std::vector<NotChecked> not_checked(const Run& run);

// A row for each signature that does not hold, with a link to its story; nothing where all holds.
void add_list_of_failures(Markup& html, const RunPage& page);

// The stories, in seven parts, with their pictures; the first one is open.
void add_failures(Markup& html, const RunPage& page, int& number);

// A row a scenario, a column a setting.
void add_results(Markup& html, const Run& run);

// Histories of cases that passed, and pictures of the whole run.
void add_passes(Markup& html, const RunPage& page, int& number);

// Adds the planted mistakes and what the checks said of each: those that escaped come first.
void add_faults(Markup& html, const RunPage& page);

void add_slowest(Markup& html, const Run& run);
void add_flaky(Markup& html, const Run& run);
void add_environment(Markup& html, const Run& run);

// A command that a reader copies.
void add_command(Markup& html, const std::string& command, const std::string& name);

// Under 20 KB of plain JavaScript.
std::string run_page_script();

}  // namespace lockstep::reports
