#include "reports/pages/parts.h"
#include "reports/pictures/page_parts.h"
#include "reports/run_text.h"
#include "reports/style.h"

#include <tuple>

namespace lockstep::reports {

namespace {

std::string canary_text(Run::Canary canary) {
  switch (canary) {
    case Run::Canary::passed:
      return "✗ escaped";
    case Run::Canary::inconclusive:
      return "? not judged";
    case Run::Canary::not_run:
      return "– not run";
    case Run::Canary::failed:
      break;
  }
  return "✓ caught";
}

// An injection that struck, in a scenario and a setting. The properties that do not hold come
// first.
using Struck = std::tuple<bool, std::string, std::string, std::string>;  // holds, kind, ...

std::map<Struck, int64_t> struck_in(const RunPage& page) {
  std::map<Struck, int64_t> all;
  for (const auto& seen : page.cases)
    for (const auto& rank : seen.history.ranks())
      for (const auto& event : rank.events)
        if (const auto* injection = std::get_if<Injection>(&event.what))
          ++all[{seen.holds, word_of(injection->kind), seen.c.scenario,
                 setting_text(seen.setting, page.run.settings)}];
  return all;
}

}  // namespace

void add_faults(Markup& html, const RunPage& page) {
  DataTable table{{"fault", "scenario", "setting", "struck", "what the checks said"}, {}};
  for (const auto& [struck, count] : struck_in(page)) {
    const auto& [holds, kind, scenario, setting] = struck;
    table.rows.push_back({kind, scenario, setting, std::to_string(count),
                          holds ? "✓ the claim holds with it" : "✗ the claim does not hold"});
  }
  const bool is_caught = page.run.canary == Run::Canary::failed;
  table.rows.insert(
      is_caught ? table.rows.end() : table.rows.begin(),
      {"the canary", "the scenario that must fail", "", "", canary_text(page.run.canary)});
  html.open("section", {{"id", "faults"}}).element("h2", {}, "Planted faults");
  html.element(
      "p", {},
      "The canary, and the injections that struck in the cases whose histories were kept.");
  open_scrolling(html, "Planted faults");
  add_table(html, table);
  html.close().close();
}

}  // namespace lockstep::reports
