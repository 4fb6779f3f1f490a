#include "harness/base/text.h"
#include "reports/coverage.h"
#include "reports/devices.h"
#include "reports/pages/parts.h"
#include "reports/pictures/page_parts.h"
#include "reports/run_text.h"
#include "reports/style.h"

#include <algorithm>
#include <functional>

namespace lockstep::reports {

namespace {

std::string sign_of(Result::Kind kind) {
  if (kind == Result::Kind::pass) return "✓ ";
  if (kind == Result::Kind::skip) return "– ";
  return is_failure(kind) ? "✗ " : "? ";
}

template <class Value>
const Value* one_of(const std::vector<Value>& all, const std::string& scenario,
                    const Setting& setting) {
  for (const auto& each : all)
    if (each.scenario == scenario && each.setting == setting) return &each;
  return nullptr;
}

// "✓ pass", and below it its numbers.
void add_result(Markup& html, const Result& result, const Run& run) {
  html.open("td", {{"class", "result " + std::string(name_of(result.kind))},
                   {"data-result", std::string(name_of(result.kind))},
                   {"data-judged", std::to_string(result.judged)}});
  html.element("strong", {}, sign_of(result.kind) + std::string(name_of(result.kind)));
  std::vector<std::string> lines;
  if (result.judged > 0) lines.push_back(counted(result.judged, "case"));
  if (result.kind == Result::Kind::pass && !result.exactness.empty())
    lines.push_back(result.exactness);
  if (const auto worlds = worlds_text(result); !worlds.empty()) lines.push_back(worlds);
  for (const auto& [reason, count] : result.refused)
    lines.push_back(counted(count, "case") + " refused: " + reason);
  if (result.kind != Result::Kind::skip && !shared_by(result, run))
    lines.push_back(seconds(result.took) + " s");
  html.empty("br").text(joined(lines, " · ")).close();
}

void add_cell(Markup& html, const Run& run, const std::string& scenario, const Setting& setting) {
  if (const auto* result = one_of(run.results, scenario, setting)) {
    add_result(html, *result, run);
  } else if (const auto* left = one_of(run.not_finished, scenario, setting)) {
    html.open("td", {{"class", "result"}, {"data-result", "not finished"}});
    html.element("strong", {}, "– not finished").empty("br").text(left->reason).close();
  } else {
    html.element("td", {{"class", "result"}, {"data-result", "not asked for"}}, "– not asked for");
  }
}

// Counted by text, in the order in which it first comes.
std::vector<std::pair<std::string, int64_t>> tallied(
    const std::vector<std::pair<std::string, int64_t>>& counts) {
  std::vector<std::pair<std::string, int64_t>> all;
  for (const auto& [text, count] : counts) {
    const auto found = std::find_if(all.begin(), all.end(),
                                    [&, &wanted = text](auto& one) { return one.first == wanted; });
    if (found == all.end())
      all.emplace_back(text, count);
    else
      found->second += count;
  }
  return all;
}

std::string results_text(int64_t count) {
  return counted(count, "result");
}

// The reason for which most cases of a result were refused.
std::string skip_reason(const Result& result) {
  return std::ranges::max_element(result.refused, {}, [](const auto& each) { return each.second; })
      ->first;
}

using Counts = std::vector<std::pair<std::string, int64_t>>;

// One sentence where there is one reason; else their number, with the reasons, the most frequent
// first. `counted_text` says how many of what.
void add_reasons(std::vector<NotChecked>& all, const std::string& begin, const std::string& end,
                 const Counts& counts, std::string (*counted_text)(int64_t)) {
  auto reasons = tallied(counts);
  if (reasons.empty()) return;
  std::ranges::stable_sort(reasons, std::greater(), &Counts::value_type::second);
  int64_t sum = 0;
  for (const auto& [reason, count] : reasons) sum += count;
  const auto whole = begin + counted_text(sum) + end;
  if (reasons.size() == 1) {
    all.push_back({whole + ": " + reasons.front().first + "."});
    return;
  }
  NotChecked folded{whole + ", for " + counted(reasons.size(), "reason")};
  for (const auto& [reason, count] : reasons)
    folded.reasons.push_back(with_commas(count) + ": " + reason);
  all.push_back(std::move(folded));
}

void add_skips(const Run& run, std::vector<NotChecked>& lines) {
  Counts skips, refused, unfinished;
  for (const auto& result : run.results)
    if (result.kind == Result::Kind::skip)
      skips.emplace_back(skip_reason(result), 1);
    else
      for (const auto& [reason, count] : result.refused) refused.emplace_back(reason, count);
  for (const auto& left : run.not_finished) unfinished.emplace_back(left.reason, 1);
  add_reasons(lines, "No result for ", "", unfinished, results_text);
  add_reasons(lines, "Skipped ", "", skips, results_text);
  add_reasons(lines, "Refused ", " of scenarios that ran", refused,
              [](int64_t count) { return counted(count, "case"); });
}

}  // namespace

std::vector<NotChecked> not_checked(const Run& run) {
  std::vector<NotChecked> lines;
  if (run.interrupted) lines.push_back({"The run was interrupted."});
  if (run.canary == Run::Canary::not_run && run.seed)
    lines.push_back(
        {"No scenario that must fail was run, so nothing shows that this run can fail."});
  for (auto& line : remarks(run)) lines.push_back({std::move(line)});
  add_skips(run, lines);
  int64_t asked = 0, judged = 0, unjudged = 0;
  for (const auto& job : run.jobs) asked += job.cases;
  for (const auto& result : run.results) {
    judged += result.judged;
    for (const auto& [reason, count] : result.refused) asked -= count;  // shown above
    unjudged += result.kind == Result::Kind::inconclusive ? 1 : 0;
  }
  if (unjudged > 0) lines.push_back({results_text(unjudged) + " could not be judged."});
  if (judged < asked)
    lines.push_back({"Of " + counted(asked, "case") + " " + with_commas(asked - judged) +
                     (asked - judged == 1 ? " was" : " were") + " not judged."});
  if (lines.empty()) lines.push_back({"Nothing: every case was judged."});
  return lines;
}

void add_results(Markup& html, const Run& run) {
  std::vector<std::string> scenarios;
  for (const auto& job : run.jobs)
    if (std::find(scenarios.begin(), scenarios.end(), job.scenario) == scenarios.end())
      scenarios.push_back(job.scenario);
  html.open("section", {{"id", "results"}});
  html.element("h2", {}, "Scenarios");
  open_scrolling(html, "Scenarios by setting");
  html.open("table").open("thead").open("tr").element("th", {{"scope", "col"}}, "scenario");
  for (const auto& setting : run.settings)
    html.element("th", {{"scope", "col"}}, setting_text(setting, run.settings));
  html.close().close().open("tbody");
  for (const auto& scenario : scenarios) {
    html.open("tr", {{"data-scenario", scenario}});
    html.open("th", {{"scope", "row"}}).name(scenario);
    for (const auto& result : run.results)
      if (result.scenario == scenario && !result.claim.empty()) {
        html.element("span", {{"class", "claim"}}, result.claim);
        break;
      }
    html.close();
    for (const auto& setting : run.settings) add_cell(html, run, scenario, setting);
    html.close();
  }
  html.close().close().close().close();
}

void add_slowest(Markup& html, const Run& run) {
  html.open("section", {{"id", "slowest"}}).element("h2", {}, "Slowest cases");
  if (run.slowest.empty()) {
    html.element("p", {}, "No case was timed.").close();
    return;
  }
  DataTable table{{"scenario", "setting", "case", "seconds"}, {}};
  for (const auto& slow : run.slowest)
    table.rows.push_back({slow.scenario, setting_text(slow.setting, run.settings),
                          std::to_string(slow.number), seconds(slow.took)});
  open_scrolling(html, "Slowest cases");
  add_table(html, table);
  html.close().close();
}

void add_flaky(Markup& html, const Run& run) {
  html.open("section", {{"id", "flaky"}}).element("h2", {}, "Flaky");
  html.open("ul");
  bool any = false;
  for (const auto& result : run.results)
    if (result.kind == Result::Kind::flaky) {
      any = true;
      html.element("li", {}, result.scenario + ", " + setting_text(result.setting, run.settings));
    }
  if (!any) html.element("li", {}, "No case that was run several times gave different verdicts.");
  html.close().close();
}

void add_environment(Markup& html, const Run& run) {
  DataTable table{{"what", "value"}, {}};
  const auto add = [&](const std::string& what, const std::string& value) {
    if (!value.empty()) table.rows.push_back({what, value});
  };
  add("Lockstep", run.version);
  add("LibTorch", run.libtorch);
  add("seed", run.seed ? seed_text(*run.seed) : "none: nothing was drawn");
  add("cores", std::to_string(run.cores));
  add("rank slots", std::to_string(run.slots));
  for (const auto& setting : run.settings)
    add("setting",
        "subject " + setting.subject + ", tier " + setting.tier + ", backend " + setting.backend);
  for (const auto& shared : run.shared_devices) add("devices", shared_text(shared));
  add("canary", std::string(name_of(run.canary)));
  add("seconds", seconds(run.took));
  add("exit code", std::to_string(run.exit_code));
  add("folder", run.folder.string());
  for (const auto& line : split(statistics(run), '\n')) add("coverage", line);
  html.open("section", {{"id", "environment"}}).element("h2", {}, "Environment");
  open_scrolling(html, "Environment");
  add_table(html, table);
  html.close().close();
}

}  // namespace lockstep::reports
