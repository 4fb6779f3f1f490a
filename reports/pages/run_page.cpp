#include "reports/pages/run_page.h"

#include "harness/base/text.h"
#include "harness/cases/groups.h"
#include "reports/pages/parts.h"
#include "reports/pictures/page_parts.h"
#include "reports/run_text.h"
#include "reports/style.h"

#include <utility>

namespace lockstep::reports {

namespace {

constexpr std::string_view kStyle = R"css(
.verdict { border-left: .5rem solid var(--axis); padding: .25rem 0 .25rem 1rem; }
.verdict.held { border-left-style: double; border-left-color: var(--rank2); }
.verdict.failed { border-left-color: var(--rank3); }
article { border: 1px solid var(--faint); border-left: .25rem double var(--rank2); margin: 1rem 0; padding: 0 1rem; }
article.failure { border-left: .5rem solid var(--rank3); }
article > details > summary { cursor: pointer; margin: .5rem 0; } article > details > summary h3 { display: inline; }
article.uncertain { border-left: .5rem dashed var(--rank1); }
h3 { font-size: 1rem; } h4 { font-size: .95rem; margin-bottom: .25rem; }
.kind { border: 1px solid var(--ink); padding: 0 .4rem; text-transform: uppercase; }
.rule { font-size: 1.15rem; font-weight: 600; margin-bottom: 0; } .quiet, .claim { color: var(--axis); }
.claim { display: block; font-weight: 400; max-width: 34rem; white-space: normal; min-width: 12rem; }
:is(#environment, #faults, #slowest, #list) :is(td, th) { text-align: left; }
pre { border: 1px solid var(--faint); padding: .5rem; } #list th { white-space: nowrap; }
#results td, #results th { vertical-align: top; text-align: left; }
td.fail, td.hang, td.crash, td.leak, td.flaky { border: 3px solid var(--rank3); }
td.inconclusive { border: 3px dashed var(--rank1); } td.skip { border-style: dotted; }
nav ul { display: flex; flex-wrap: wrap; gap: .25rem 1rem; list-style: none; padding: 0; } 
@media (max-width: 480px) { #list :is(table, tbody, tr, td, th) { border: 0; display: block; overflow-wrap: anywhere; }
  #list thead { display: none; } #list tr { border-bottom: 1px solid var(--faint); } }
@media print { nav { display: none; } }
)css";

bool is_held(const Run& run) {
  return verdict_text(run) == "all held";
}

void add_not_checked(Markup& html, const Run& run) {
  html.element("h3", {}, "What was not checked, and why");
  html.open("ul", {{"id", "not-checked"}});
  for (const auto& [line, reasons] : not_checked(run)) {
    html.open("li");
    if (reasons.empty()) {
      html.text(line);
    } else {
      html.open("details").element("summary", {}, line).open("ul");
      for (const auto& reason : reasons) html.element("li", {}, reason);
      html.close().close();
    }
    html.close();
  }
  html.close();
}

// Adds what is true of results that hold, and mostly done on purpose.
void add_remarks(Markup& html, const Run& run) {
  bool any = false;
  for (const auto& result : run.results)
    for (const auto& remark : result.remarks) {
      if (!std::exchange(any, true))
        html.element("h3", {}, "Remarks").open("ul", {{"id", "remarks"}});
      html.element("li", {}, result.scenario + ": " + remark.diagnosis);
    }
  if (any) html.close();
}

void add_verdict(Markup& html, const RunPage& page) {
  const auto& run = page.run;
  int64_t judged = 0;
  for (const auto& result : run.results) judged += result.judged;
  html.open("section", {{"id", "verdict"},
                        {"class", std::string("verdict ") + (is_held(run) ? "held" : "failed")}});
  html.element("h2", {}, (is_held(run) ? "✓ " : "✗ ") + verdict_text(run));
  html.open("p", {{"class", "finding"}});
  html.text(scenarios_text(run) + ": " + counts_text(run, SkipReasons::left_out) + "; ");
  html.element("span", {{"id", "judged"}, {"data-judged", std::to_string(judged)}},
               counted(judged, "case"));
  html.text(" judged in " + seconds(run.took) + " s.").close();
  add_list_of_failures(html, page);
  add_remarks(html, run);
  add_not_checked(html, run);
  html.element("p", {},
               "Lockstep " + run.version + " · LibTorch " + run.libtorch +
                   (run.seed ? " · seed " + seed_text(*run.seed) : "") +
                   (run.shard ? " · shard " + shard_text(*run.shard) : "") + " · " +
                   counted(run.cores, "core"));
  if (!run.command.empty()) {
    html.element("h3", {}, "The same run again");
    add_command(html, run.command, "the same run again");
  }
  html.close();
}

void add_contents(Markup& html) {
  static constexpr std::pair<const char*, const char*> kSections[] = {
      {"failures", "What does not hold"}, {"results", "Scenarios"}, {"histories", "What happened"},
      {"faults", "Planted faults"},       {"slowest", "Slowest"},   {"flaky", "Flaky"},
      {"environment", "Environment"}};
  html.open("nav", {{"aria-label", "Sections"}}).open("ul");
  for (const auto& [id, name] : kSections)
    html.open("li").element("a", {{"href", "#" + std::string(id)}}, name).close();
  html.close().close();
}

}  // namespace

std::string run_page(const RunPage& page) {
  const auto& run = page.run;
  auto html = begun_page("Lockstep: " + verdict_text(run), Scripts::inline_only, kStyle);
  int number = 0;
  add_verdict(html, page);
  add_contents(html);
  add_failures(html, page, number);
  add_results(html, run);
  add_passes(html, page, number);
  add_faults(html, page);
  add_slowest(html, run);
  add_flaky(html, run);
  add_environment(html, run);
  return ended_page(std::move(html), run_page_script());
}

}  // namespace lockstep::reports
