#include "reports/github.h"

#include "harness/base/characters.h"
#include "harness/base/text.h"
#include "harness/cases/groups.h"
#include "reports/case_text.h"
#include "reports/run_text.h"
#include "reports/story.h"
#include "reports/terminal.h"

#include <algorithm>

namespace lockstep::reports {

namespace {

// Reserved for the sentence that counts the omitted stories.
constexpr size_t kClosingBytes = 200;

std::string replaced(std::string text, char what, const std::string& by) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size())
    text.replace(at, 1, by);
  return text;
}

std::string escaped_data(const std::string& text) {
  return replaced(replaced(replaced(text, '%', "%25"), '\r', "%0D"), '\n', "%0A");
}

std::string escaped_property(const std::string& text) {
  return replaced(replaced(escaped_data(text), ':', "%3A"), ',', "%2C");
}

std::string command(const char* name, const std::string& title, const std::string& message) {
  return "::" + std::string(name) + " title=" + escaped_property(legible(title)) +
         "::" + escaped_data(legible(message)) + "\n";
}

std::string setting_text(const Setting& setting) {
  return setting.subject + ", " + setting.tier + ", " + setting.backend;
}

std::string unindented(std::vector<std::string> lines) {
  for (auto& line : lines) line.erase(0, line.find_first_not_of(' '));
  return joined(lines, "\n");
}

std::string annotation(const Result& result, const Run& run) {
  std::string message = rule_of(result) + "\n" + diagnosis_of(result);
  if (const auto count = count_text(result); !count.empty()) message += "\nfound in: " + count;
  if (result.failure && result.failure->shrunk)
    message += "\n" + unindented(case_lines(*result.failure));
  else if (result.failure)
    message += "\ncase: " + case_line(*result.failure);
  if (const auto replay = replay_command(result, run.program); !replay.empty())
    message += "\nreplay: " + replay;
  return command(is_failure(result.kind) ? "error" : "warning",
                 std::string(name_of(result.kind)) + ": " + result.scenario + " (" +
                     setting_text(result.setting) + ")",
                 message);
}

// A fence is closed by a line with as many backticks as opened it, or more.
std::string fenced(const std::string& text) {
  size_t longest = 2, row = 0;
  for (const char letter : text) {
    row = letter == '`' ? row + 1 : 0;
    longest = std::max(longest, row);
  }
  const std::string fence(longest + 1, '`');
  return fence + "text\n" + text + (text.ends_with('\n') ? "" : "\n") + fence + "\n\n";
}

// Whole lines of `text`, and how many are missing; empty where not even one fits.
std::string cut(const std::string& text, size_t bytes_most) {
  if (text.size() <= bytes_most) return text;
  if (bytes_most <= kClosingBytes) return "";
  const size_t end = text.rfind('\n', bytes_most - kClosingBytes);
  if (end == std::string::npos) return "";
  const auto left =
      std::count(text.begin() + static_cast<std::ptrdiff_t>(end) + 1, text.end(), '\n');
  return text.substr(0, end + 1) + "... " + counted(left, "line") + " left out\n";
}

// `text` in a fence, at most `bytes_most` including the fence.
std::string fenced_and_cut(const std::string& text, size_t bytes_most) {
  const size_t fences = fenced(text).size() - text.size();
  if (fences >= bytes_most) return "";
  const auto kept = cut(text, bytes_most - fences);
  return kept.empty() ? "" : fenced(kept);
}

std::string overview(const Run& run) {
  const auto columns = columns_for(run);
  std::string text = headline(run, {});
  for (const auto& result : run.results) text += result_line(result, run, columns, {});
  return legible(text + summary(run, {}));
}

// In Markdown, which nothing in it can leave.
std::string code_span(const std::string& text) {
  return "`" + replaced(one_line(text), '`', "'") + "`";
}

std::string heading(const Result& result) {
  return "### " + std::string(name_of(result.kind)) + ": " + code_span(result.scenario) + " (" +
         code_span(setting_text(result.setting)) + ")\n\n";
}

}  // namespace

std::string annotations(const Run& run) {
  std::vector<std::string> all;
  if (run.canary == Run::Canary::passed)
    all.push_back(
        command("error", "canary", blind_text(run) + ": no pass of this run proves anything"));
  for (const bool failures : {true, false})
    for (const auto& result : run.results)
      for (const auto& one : by_signature(result))
        if (is_reported(one) && is_failure(one.kind) == failures)
          all.push_back(annotation(one, run));
  if (all.size() > kAnnotationsMost) {
    const auto left = static_cast<int64_t>(all.size() - kAnnotationsMost + 1);
    all.resize(kAnnotationsMost - 1);
    all.push_back(command("error", "lockstep",
                          "and " + counted(left, "more result") +
                              " that did not pass: the step's summary tells each story"));
  }
  return joined(all, "");
}

std::string step_summary(const Run& run, size_t bytes_most) {
  std::string text = "## Lockstep: " + verdict_text(run) + "\n\n";
  if (text.size() + kClosingBytes >= bytes_most) return "";
  text += fenced_and_cut(overview(run), (bytes_most - kClosingBytes - text.size()) / 2);
  int64_t left = 0;
  for (const auto& result : run.results) {
    if (!is_reported(result)) continue;
    const size_t room = bytes_most - kClosingBytes - text.size();
    const auto title = heading(result);
    const auto shown =
        title.size() >= room
            ? ""
            : fenced_and_cut(legible(joined(story(result, run.program), "\n") + "\n"),
                             room - title.size());
    if (shown.empty()) {
      ++left;
    } else {
      text += title + shown;
    }
  }
  if (left > 0) text += counted(left, "more result") + " had no room here.\n";
  return text;
}

}  // namespace lockstep::reports
