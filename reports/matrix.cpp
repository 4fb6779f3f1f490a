#include "reports/matrix.h"

#include "harness/base/characters.h"
#include "harness/base/text.h"
#include "harness/verdict/usual_cause.h"
#include "reports/story.h"
#include "reports/style.h"

#include <algorithm>
#include <map>
#include <optional>

namespace lockstep::reports {

namespace {

enum class Answer { holds, lacks, limited, differs, unknown };  // the worse, the later

std::string reason_of(const Result& result) {
  return result.worst.findings.empty() ? "" : legible(result.worst.findings.front().diagnosis);
}

// A sentence on what the backend lacks, where nothing else fails: no difference of the subject.
std::string limit_of(const Result& result) {
  return result.worst.findings.empty() ? "" : result.worst.findings.front().limit;
}

Answer cell_of(const Result& result) {
  if (result.kind == Result::Kind::pass) return Answer::holds;
  if (result.kind == Result::Kind::inconclusive) return Answer::unknown;
  if (is_failure(result.kind)) return limit_of(result).empty() ? Answer::differs : Answer::limited;
  return Answer::lacks;
}

const char* name_of(Answer cell) {
  switch (cell) {
    case Answer::holds:
      return "holds";
    case Answer::lacks:
      return "–";
    case Answer::limited:
      return "limited";
    case Answer::differs:
      return "differs";
    case Answer::unknown:
      return "not judged";
  }
  return "?";
}

// The heading of a setting's column: its subject, and its tier where the run has several.
std::string heading_of(const Setting& setting, const Run& run) {
  const bool is_one_tier =
      std::all_of(run.settings.begin(), run.settings.end(),
                  [&](const auto& other) { return other.tier == setting.tier; });
  return setting.subject + (is_one_tier ? "" : ", " + setting.tier);
}

const Result* result_of(const Run& run, const std::string& scenario, const Setting& setting) {
  const auto found =
      std::find_if(run.results.begin(), run.results.end(), [&](const Result& result) {
        return result.scenario == scenario && result.setting == setting;
      });
  return found == run.results.end() ? nullptr : &*found;
}

std::vector<std::string> scenarios_of(const Run& run) {
  std::vector<std::string> names;
  for (const auto& summary : run.jobs)
    if (std::find(names.begin(), names.end(), summary.scenario) == names.end())
      names.push_back(summary.scenario);
  return names;
}

std::string file_of(const Result& result, const MatrixPage& page) {
  const auto file = result.failure ? result.failure->case_file.filename().string() : "";
  return file.empty() ? "" : page.folder + "/" + file;
}

std::string cell_text(const Result* result, const MatrixPage& page) {
  if (result == nullptr) return name_of(Answer::unknown);
  const auto file = file_of(*result, page);
  const std::string name = name_of(cell_of(*result));
  return file.empty() ? name : "[" + name + "](" + file + ")";
}

std::string row(const std::vector<std::string>& cells) {
  return "| " + joined(cells, " | ") + " |\n";
}

// The head of a table with a column for each setting behind these.
std::string head(std::vector<std::string> columns, const Run& run) {
  for (const auto& setting : run.settings) columns.push_back(heading_of(setting, run));
  return row(columns) + row(std::vector<std::string>(columns.size(), "---"));
}

std::string claims(const Run& run, const MatrixPage& page) {
  std::string text = head({"claim"}, run);
  for (const auto& scenario : scenarios_of(run)) {
    std::vector<std::string> cells{"`" + scenario + "`"};
    for (const auto& setting : run.settings)
      cells.push_back(cell_text(result_of(run, scenario, setting), page));
    text += row(cells);
  }
  return text;
}

std::string how_it_differs(Result::Kind kind) {
  switch (kind) {
    case Result::Kind::crash:
      return "throws";
    case Result::Kind::hang:
      return "hangs";
    case Result::Kind::leak:
      return "leaves work behind";
    case Result::Kind::flaky:
      return "differs from time to time";
    default:
      return "differs";
  }
}

std::string as_sentence(const std::string& text) {
  return legible(text) + (text.ends_with('.') ? "" : ".");
}

std::string sentence(const Result& result, const MatrixPage& page) {
  const auto name = "- `" + result.scenario + "` ";
  const auto cell = cell_of(result);
  if (cell == Answer::unknown) return name + "is not judged: " + reason_of(result) + "\n";
  if (cell != Answer::differs && cell != Answer::limited) return "";
  const auto file = file_of(result, page);
  const auto how = cell == Answer::limited
                       ? "is limited: " + limit_of(result)
                       : how_it_differs(result.kind) + ": " + as_sentence(headline_of(result)) +
                             " " + legible(diagnosis_of(result));
  return name + how + (file.empty() ? "" : " ([case](" + file + "))") + "\n";
}

// Lists what a subject lacks, each with the claims that it therefore does not offer.
std::string lacks(const Run& run, const Setting& setting) {
  std::map<std::string, std::vector<std::string>> claims;  // by reason
  for (const auto& result : run.results)
    if (result.setting == setting && cell_of(result) == Answer::lacks)
      claims[reason_of(result)].push_back("`" + result.scenario + "`");
  std::string text;
  for (const auto& [reason, names] : claims)
    text += "- " + reason + ": " + joined(names, ", ") + "\n";
  return text.empty() ? "" : "\nWhat it does not offer:\n\n" + text;
}

// The features that a subject lacks, in cases of scenarios that it does not refuse altogether.
std::string refusals(const Run& run, const Setting& setting) {
  std::map<std::string, int64_t> scenarios;  // by reason
  for (const auto& result : run.results)
    if (result.setting == setting && result.kind != Result::Kind::skip)
      for (const auto& [reason, cases] : result.refused) ++scenarios[legible(reason)];
  std::string text;
  for (const auto& [reason, count] : scenarios)
    text += "- " + reason + " (" + counted(count, "claim") + ")\n";
  return text.empty() ? "" : "\nCases that it refuses:\n\n" + text;
}

std::string section(const Run& run, const Setting& setting, const MatrixPage& page) {
  std::string text;
  for (const auto& result : run.results)
    if (result.setting == setting) text += sentence(result, page);
  if (text.empty()) text = "Every claim that applies holds.\n";
  return "\n## " + heading_of(setting, run) + "\n\n" + text + lacks(run, setting) +
         refusals(run, setting);
}

std::string worst_of(const Run& run, const Difference& difference, const Setting& setting) {
  std::optional<Answer> worst;
  for (const auto& scenario : difference.scenarios)
    if (const auto* const result = result_of(run, scenario, setting))
      worst = std::max(worst.value_or(Answer::holds), cell_of(*result));
  return worst ? name_of(*worst) : name_of(Answer::unknown);
}

std::string differences(const Run& run, const MatrixPage& page) {
  if (page.differences.empty()) return "";
  std::string text = "\n## Deliberate differences\n\n" + head({"semantics", "", "claims"}, run);
  for (const auto& difference : page.differences) {
    std::vector<std::string> names;
    for (const auto& scenario : difference.scenarios) names.push_back("`" + scenario + "`");
    std::vector<std::string> cells{difference.number, difference.title,
                                   names.empty() ? difference.instead : joined(names, ", ")};
    for (const auto& setting : run.settings)
      cells.push_back(names.empty() ? "" : worst_of(run, difference, setting));
    text += row(cells);
  }
  return text;
}

}  // namespace

std::string matrix_page(const Run& run, const MatrixPage& page) {
  std::string text =
      "# The matrix\n\n`" + page.command +
      "` wrote this page: what each subject does with each claim of the catalogue.\n"
      "**holds**; **differs**, in the linked case; **limited**, where its backend cannot; **–**, "
      "where it does not offer what is judged,\nfor the reasons below.\n\n";
  text += claims(run, page);
  for (const auto& setting : run.settings) text += section(run, setting, page);
  return text + differences(run, page);
}

}  // namespace lockstep::reports
