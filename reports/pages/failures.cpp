#include "harness/base/text.h"
#include "harness/cases/groups.h"
#include "reports/findings/text.h"
#include "reports/pages/parts.h"
#include "reports/pages/shown_case.h"
#include "reports/pictures/page_parts.h"
#include "reports/run_text.h"
#include "reports/story.h"
#include "reports/style.h"

#include <algorithm>
#include <utility>

namespace lockstep::reports {

namespace {

// The history of the result's case; where it ran on several tiers, of the result's own.
const SeenCase* seen_of(const Result& result, const RunPage& page) {
  if (!result.failure) return nullptr;
  const SeenCase* found = nullptr;
  for (const auto& seen : page.cases) {
    if (seen.holds || seen.c != result.failure->c || seen.setting.subject != result.setting.subject)
      continue;
    if (!found || seen.setting == result.setting) found = &seen;
  }
  return found;
}

// One at a time, where scripts run.
void add_switched(Markup& html, const std::vector<Picture>& pictures, int& number,
                  const char* heading) {
  html.open("div", {{"class", "pictures"}});
  add_pictures(html, pictures, number, heading);
  html.close();
}

// A part of the story below its heading, where there is something to tell.
void add_part(Markup& html, const std::string& heading, const std::vector<std::string>& lines,
              const std::string& name) {
  if (lines.empty()) return;
  html.element("h4", {}, heading);
  add_lines(html, lines, heading + ": " + name);
}

// Adds the lines below the diagnosis: sentences wrap, and a table keeps its columns.
void add_shown(Markup& html, const Finding& finding, const std::string& name) {
  if (finding.details.empty()) return;
  html.element("h4", {}, name.substr(0, name.find(':')));
  std::vector<std::string> sentences;
  const auto add_sentences = [&] {
    if (!sentences.empty()) add_lines(html, std::exchange(sentences, {}), name);
  };
  for (const auto& detail : finding.details) {
    const auto* table = std::get_if<Table>(&detail);
    if (table && has_headings(*table)) {
      add_sentences();
      add_lines(html, lines_of(*table), name, Layout::columns);
    } else {
      for (auto& line : lines_of(Details{detail})) sentences.push_back(std::move(line));
    }
  }
  add_sentences();
}

std::string heading_of_shown(const Result& result) {
  const bool waits = result.kind == Result::Kind::hang || result.kind == Result::Kind::crash;
  return waits ? "Which rank waits for which" : "The first divergence";
}

std::string kind_text(const Result& result) {
  return (is_failure(result.kind) ? "✗ " : "? ") + std::string(name_of(result.kind));
}

std::string id_of(int story) {
  return "story" + std::to_string(story);
}

void add_story(Markup& html, const Result& result, const RunPage& page, int& number, int story) {
  const auto parts = story_parts(result, page.run.program);
  const auto name = result.scenario + ", " + setting_text(result.setting, page.run.settings);
  const bool is_certain = is_failure(result.kind);
  html.open("article", {{"class", is_certain ? "failure" : "failure uncertain"}});
  Markup::Attributes folded{{"id", id_of(story)}};
  if (story == 1) folded.emplace_back("open", "open");
  html.open("details", folded).open("summary").open("h3");
  html.element("span", {{"class", "kind"}}, kind_text(result));
  html.text(" " + name).close().close();
  html.element("p", {{"class", "rule"}}, parts.rule);
  html.element("p", {{"class", "diagnosis"}}, parts.diagnosis);
  for (const auto& line : parts.plainly) html.element("p", {}, line);
  if (!parts.count.empty()) html.element("p", {}, "Found in " + parts.count + ".");
  const auto* seen = seen_of(result, page);
  auto pictures = pictures_of_failure(result, seen ? &seen->history : nullptr);
  if (const auto more = page.of_scenario.find(result.scenario); more != page.of_scenario.end())
    pictures.insert(pictures.end(), more->second.begin(), more->second.end());
  add_switched(html, pictures, number, "h4");
  if (!seen && result.failure)
    html.element("p", {{"class", "quiet"}},
                 "No history of this case was kept: the pictures show what the finding says.");
  add_part(html, "The smallest case", parts.smallest_case, name);
  if (!result.worst.findings.empty())
    add_shown(html, result.worst.findings.front(), heading_of_shown(result) + ": " + name);
  for (const auto& line : parts.more) html.element("p", {}, line);
  if (!parts.replay.empty()) {
    html.element("h4", {}, "Run it again");
    add_command(html, parts.replay, "replay " + name);
  }
  if (!parts.read.empty()) {
    html.element("h4", {}, "Read on");
    add_command(html, parts.read, "explain " + name);
    if (!parts.logs.empty()) html.element("p", {}, "The output of its ranks: " + parts.logs);
    add_part(html, "What the rank to blame left", parts.evidence, name);
  }
  html.close().close();
}

bool is_limited(const Result& result) {
  return !result.worst.findings.empty() && !result.worst.findings.front().limit.empty();
}

// Failures, then what a backend cannot, then what could not be judged.
std::vector<Result> stories_of(const Run& run) {
  std::vector<Result> stories;
  for (const bool failures : {true, false})
    for (const auto& result : run.results)
      for (auto& one : by_signature(result))
        if (is_reported(one) && is_failure(one.kind) == failures) stories.push_back(std::move(one));
  std::stable_partition(stories.begin(), stories.end(),
                        [](const Result& one) { return is_failure(one.kind) && !is_limited(one); });
  return stories;
}

}  // namespace

void add_command(Markup& html, const std::string& command, const std::string& name) {
  html.open("div", {{"class", "command"}});
  html.element("pre", {{"tabindex", "0"}, {"role", "group"}, {"aria-label", "Command: " + name}},
               command);
  html.close();
}

void add_list_of_failures(Markup& html, const RunPage& page) {
  const auto stories = stories_of(page.run);
  if (stories.empty()) return;
  html.element("h3", {}, "What does not hold");
  html.open("div", {{"id", "list"}});
  open_scrolling(html, "What does not hold");
  html.open("table").open("thead").open("tr");
  for (const char* name : {"what", "scenario", "setting", "diagnosis"})
    html.element("th", {{"scope", "col"}}, name);
  html.close().close().open("tbody");
  int story = 0;
  for (const auto& one : stories) {
    html.open("tr").element("th", {{"scope", "row"}}, kind_text(one)).open("td");
    html.open("a", {{"href", "#" + id_of(++story)}}).name(one.scenario).close().close();
    html.element("td", {}, setting_text(one.setting, page.run.settings));
    html.element("td", {}, diagnosis_of(one)).close();
  }
  html.close().close().close().close();
}

void add_failures(Markup& html, const RunPage& page, int& number) {
  const auto stories = stories_of(page.run);
  html.open("section", {{"id", "failures"}});
  html.element("h2", {}, "What does not hold");
  if (stories.empty()) html.element("p", {}, "Everything that was judged holds.");
  int story = 0;
  for (const auto& one : stories) add_story(html, one, page, number, ++story);
  html.close();
}

void add_passes(Markup& html, const RunPage& page, int& number) {
  html.open("section", {{"id", "histories"}});
  html.element("h2", {}, "What happened");
  add_switched(html, page.of_run, number, "h3");
  int shown = 0;
  for (const auto& seen : page.cases) {
    if (!seen.holds) continue;
    const auto pictures = pictures_of_pass(seen.history);
    if (pictures.empty()) continue;
    ++shown;
    html.open("article", {{"class", "history"}});
    html.element("h3", {},
                 seen.c.scenario + ", case " + std::to_string(seen.number) + ": " +
                     counted(seen.history.size(), "rank") + " on " + seen.setting.tier +
                     ", which passed");
    add_switched(html, pictures, number, "h4");
    html.close();
  }
  if (shown == 0 && page.of_run.empty())
    html.element("p", {}, "No history of a case that passed was kept.");
  html.close();
}

}  // namespace lockstep::reports
