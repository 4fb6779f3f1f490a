#include "reports/terminal.h"

#include "harness/base/text.h"
#include "harness/cases/groups.h"
#include "reports/coverage.h"
#include "reports/devices.h"
#include "reports/fit.h"
#include "reports/run_text.h"
#include "reports/story.h"

#include <algorithm>

namespace lockstep::reports {

namespace {

constexpr size_t kKindAndTimeColumns = 11;  // "PASS   2.9s"
constexpr size_t kCasesColumns = 8;
constexpr std::string_view kHere = "◄";  // marks the line of a table to read first

std::string kind_word(Result::Kind kind) {
  std::string word(name_of(kind));
  for (auto& letter : word) letter = static_cast<char>(letter - 'a' + 'A');
  return word;
}

Colour colour_of(Result::Kind kind) {
  if (kind == Result::Kind::pass) return Colour::green;
  return is_failure(kind) ? Colour::red : Colour::yellow;
}

int64_t refused_count(const Result& result) {
  int64_t count = 0;
  for (const auto& [reason, cases] : result.refused) count += cases;
  return count;
}

std::string refused_text(const Result& result) {
  if (result.refused.empty()) return "";
  return with_commas(refused_count(result)) + " refused (" +
         (result.refused.size() == 1 ? result.refused.begin()->first
                                     : counted(result.refused.size(), "reason")) +
         ")";
}

std::string both(const std::string& a, const std::string& b, const std::string& between) {
  return a + (a.empty() || b.empty() ? "" : between) + b;
}

std::string signatures_text(const Result& result) {
  int64_t cases = 0;
  for (const auto& [signature, count] : result.signatures) cases += count;
  return with_commas(cases) + " of " + counted(result.judged, "case") + ", " +
         counted(result.signatures.size(), "signature");
}

std::string cases_text(const Result& result, const Columns& columns) {
  if (result.kind == Result::Kind::skip)
    return "     " + weightiest_reason(result) +
           (result.refused.size() == 1
                ? ""
                : ", and " + counted(result.refused.size() - 1, "more reason"));
  if (!result.signatures.empty()) return "   " + signatures_text(result);
  if (is_failure(result.kind) || result.failure)
    return result.failure ? "   case " + std::to_string(result.failure->number) + " of " +
                                std::to_string(result.failure->of)
           : result.judged > 0 ? right_aligned(with_commas(result.judged), kCasesColumns) +
                                     (result.judged == 1 ? " case" : " cases")
                               : "   no case";
  const std::string notes = both(both(worlds_text(result), refused_text(result), " · "),
                                 schedules_text(result.schedules), " · ");
  return right_aligned(with_commas(result.judged), kCasesColumns) +
         (result.judged == 1 ? " case   " : " cases  ") +
         padded(result.exactness, columns.exactness) + "     " + notes;
}

std::string without_trailing_spaces(std::string text) {
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

std::string canary_text(const Run& run, const Style& style) {
  switch (run.canary) {
    case Run::Canary::not_run:
      return "";
    case Run::Canary::failed:
      return "     canary failed as it must";
    case Run::Canary::passed:
      return "     " + coloured("canary passed", Colour::red, style);
    case Run::Canary::inconclusive:
      return "     " + coloured("canary inconclusive", Colour::yellow, style);
  }
  return "";
}

// For lines that each end with a newline.
std::string fitted_text(const std::string& text, const Style& style) {
  auto lines = split(text, '\n');
  lines.pop_back();
  std::string out;
  for (const auto& line : fitted(lines, style)) out += line + "\n";
  return out;
}

}  // namespace

Columns columns_for(const Run& run) {
  Columns columns;
  for (const auto& summary : run.jobs) {
    columns.scenario = std::max(columns.scenario, width(summary.scenario));
    columns.exactness = std::max(columns.exactness, width(summary.exactness));
  }
  for (const auto& result : run.results) {
    columns.scenario = std::max(columns.scenario, width(result.scenario));
    columns.exactness = std::max(columns.exactness, width(result.exactness));
  }
  for (const auto& setting : run.settings)
    columns.setting = std::max(columns.setting, width(setting_text(setting, run.settings)));
  return columns;
}

std::string headline(const Run& run, const Style& style) {
  std::vector<std::string> parts{"lockstep " + run.version, "libtorch " + run.libtorch};
  for (const auto& backend : distinct(run.settings, &Setting::backend)) parts.push_back(backend);
  const auto subjects = distinct(run.settings, &Setting::subject);
  if (subjects != std::vector{Setting().subject})
    parts.push_back((subjects.size() == 1 ? "subject " : "subjects ") + joined(subjects, ", "));
  if (run.seed) parts.push_back("seed " + seed_text(*run.seed));
  if (run.shard) parts.push_back("shard " + shard_text(*run.shard));
  parts.push_back(counted(run.cores, "core"));
  std::string text = joined(parts, " · ") + "\n";
  for (const auto& shared : run.shared_devices)
    text += shared_text(shared) + ": judged as ever, never timed\n";
  return fitted_text(shown(text, style), style);
}

std::string result_line(const Result& result, const Run& run, const Columns& columns,
                        const Style& style) {
  const std::string word = kind_word(result.kind);
  const bool is_timed = result.kind != Result::Kind::skip && !shared_by(result, run);
  const std::string time = is_timed ? seconds(result.took) + "s" : "– ";
  const size_t left = word.size() < kKindAndTimeColumns ? kKindAndTimeColumns - word.size() : 0;
  const std::string rest = padded(result.scenario, columns.scenario) + "  " +
                           padded(setting_text(result.setting, run.settings), columns.setting) +
                           cases_text(result, columns);
  const std::string indent = "  ";
  const auto line =
      fitted_row(shown(indent + word + right_aligned(time, std::max(left, width(time) + 1)) + "  " +
                           without_trailing_spaces(rest),
                       style),
                 style);
  const auto begin = indent + word;
  if (!line.starts_with(begin)) return line + "\n";  // a terminal of a few columns
  return indent + coloured(word, colour_of(result.kind), style) + line.substr(begin.size()) + "\n";
}

std::string story_text(const Result& result, const std::string& program, const Style& style) {
  std::string text;
  const auto here = shown(std::string(kHere), style);
  std::vector<std::string> part;  // one signature's, which begins with its rule
  const auto add = [&] {
    if (part.empty()) return;
    for (const auto& line : fitted({part.front()}, style))
      text += coloured(line, Colour::bold, style) + "\n";
    part.erase(part.begin());
    for (const auto& line : fitted(part, style))
      text += (line.ends_with(here) ? coloured(line, Colour::red, style) : line) + "\n";
    text += "\n";
    part.clear();
  };
  for (const auto& line : story(result, program, style))
    if (line.empty())
      add();
    else
      part.push_back(shown(line, style));
  add();
  return text;
}

std::string result_text(const Result& result, const Run& run, const Columns& columns,
                        const Style& style) {
  return result_line(result, run, columns, style) + story_text(result, run.program, style);
}

std::string summary(const Run& run, const Style& style) {
  int64_t cases = 0;
  for (const auto& result : run.results) cases += result.judged;
  const auto counts = both(scenarios_text(run), counts_text(run), ": ") + "   " +
                      counted(cases, "case") + "   " + seconds(run.took) + " s";
  auto lines = remarks(run);
  if (!run.not_finished.empty())
    lines.insert(lines.begin(), "no result for " + counted(run.not_finished.size(), "scenario") +
                                    ": " + run.not_finished.front().reason);
  std::string remarked;
  for (const auto& line : lines) remarked += shown(line, style) + "\n";
  return fitted_text(shown(counts, style) + canary_text(run, style) + "\n" + remarked, style) +
         (run.folder.empty()
              ? ""
              : shown("run: " + (run.folder.parent_path() / "latest").string() + "\n", style));
}

std::string slowest(const Run& run, size_t most, const Style& style) {
  if (run.slowest.empty() || most == 0) return "";
  const Columns columns = columns_for(run);
  std::string text = "slowest cases\n";
  for (size_t i = 0; i < std::min(most, run.slowest.size()); ++i) {
    const auto& slow = run.slowest[i];
    text += "  " + right_aligned(seconds(slow.took), 5) + "s  " +
            padded(slow.scenario, columns.scenario) + "  " +
            padded(setting_text(slow.setting, run.settings), columns.setting) + "   case " +
            std::to_string(slow.number) + "\n";
  }
  return fitted_text(shown(text, style), style);
}

}  // namespace lockstep::reports
