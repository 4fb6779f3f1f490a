#include "reports/story.h"

#include "harness/base/characters.h"
#include "harness/base/text.h"
#include "harness/cases/groups.h"
#include "harness/verdict/usual_cause.h"
#include "reports/case_text.h"
#include "reports/findings/text.h"
#include "reports/fit.h"

#include <algorithm>

namespace lockstep::reports {

namespace {

const Finding* first_finding(const Result& result) {
  return result.worst.findings.empty() ? nullptr : &result.worst.findings.front();
}

// "run 5 times: pass 3 times, fail, pass".
std::string runs_text(const Failure& failure) {
  std::vector<std::pair<std::string, int64_t>> alike;
  for (const auto kind : failure.runs) {
    const std::string name(name_of(kind));
    if (alike.empty() || alike.back().first != name) alike.emplace_back(name, 0);
    ++alike.back().second;
  }
  std::vector<std::string> parts;
  for (const auto& [name, times] : alike)
    parts.push_back(name + (times == 1 ? "" : " " + counted(times, "time")));
  return "run " + counted(failure.runs.size(), "time") + ": " + joined(parts, ", ");
}

std::string read_command(const Result& result, const std::string& program) {
  return shell_word(program) + " explain " + shell_word(result.scenario);
}

// The evidence that the rank to blame left: where ranks diverge, its stack and its last lines.
std::vector<std::string> evidence_of(const Failure& failure) {
  std::vector<std::string> lines;
  for (const auto& site : failure.call_sites) lines.push_back("  " + site);
  const auto quote = [&](const std::string& what, const std::string& text) {
    if (text.empty()) return;
    lines.push_back("  rank " + std::to_string(failure.tail_rank) + what);
    for (const auto& line : split(text, '\n')) lines.push_back("    | " + line);
  };
  quote(" was in", failure.stack);
  quote(" wrote last", failure.tail);
  return lines;
}

bool is_recorded(const Result& result) {
  return result.setting.tier == kRecorded;
}

// Whether `explain` says more of the result than its story.
bool has_explanation(const Result& result) {
  return result.failure || is_recorded(result);
}

std::vector<std::string> where_to_go_on(const Result& result, const std::string& program) {
  const Failure& failure = *result.failure;
  std::vector<std::string> lines;
  if (const auto command = replay_command(result, program); !command.empty())
    append(lines, labelled("replay", {command}));
  append(lines, labelled("read", {read_command(result, program)}));
  if (!failure.logs.empty()) append(lines, labelled("logs", {shell_word(failure.logs)}));
  append(lines, evidence_of(failure));
  return lines;
}

std::vector<std::string> archived_line(const Result& result) {
  if (!result.failure || !result.failure->archived) return {};
  return labelled("archived", {"it failed in an earlier run, so it runs first"});
}

// "step 1, in forward", or what stands for a place.
std::string moment_of(const Finding& finding) {
  if (finding.where.empty()) return finding.rule;
  return finding.where.at
             ? "step " + std::to_string(finding.where.at->step) + ", " + finding.where.at->phase
             : finding.where.text();
}

// A check's finding at a moment before ranks ended badly.
const Finding* wrong_before(const Result& result) {
  const auto& all = result.worst.findings;
  if (all.empty() || all.front().where.at) return nullptr;
  const auto found =
      std::find_if(all.begin(), all.end(), [](const Finding& finding) { return finding.where.at; });
  return found == all.end() || result.worst.kind == Verdict::Kind::fail ? nullptr : &*found;
}

// Lines on what else is wrong: further mistakes, of which none is a consequence of another; what
// was wrong before a bad ending; or "and 3 more findings, the next at step 1, ...: no rank ...",
// which may be of another mistake. Empty where there is one finding.
std::vector<std::string> more_lines(const Result& result) {
  std::vector<std::string> lines;
  if (result.failure)
    for (const auto& finding : result.failure->further)
      lines.push_back("a further mistake, in the case as drawn, at " + moment_of(finding) + ": " +
                      finding.diagnosis);
  const auto count = static_cast<int64_t>(result.worst.findings.size());
  if (!lines.empty() || count < 2) return lines;
  if (const auto* before = wrong_before(result))
    return {"wrong before that, at " + moment_of(*before) + ": " + before->rule + ": " +
            before->diagnosis};
  const auto& next = result.worst.findings[1];
  const auto place = moment_of(next);
  return {"and " + counted(count - 1, "more finding") + ", the next " +
          (next.diagnosis.starts_with(place + ": ") ? "of " : "at " + place + ": ") +
          next.diagnosis};
}

std::vector<std::string> remark_lines(const Finding& remark, const Style& style) {
  std::vector<std::string> lines{"  remark: " + remark.diagnosis};
  append(lines, shown_below(remark, style));
  return lines;
}

// How the ranks ended, where that and no check fails the result; else empty.
std::string ending_text(const Result& result) {
  if (result.claim.empty() || is_recorded(result)) return "";
  if (result.kind == Result::Kind::crash) return "it crashed: ";
  if (result.kind == Result::Kind::hang) return "it hung: ";
  return result.kind == Result::Kind::leak ? "every rank returned without an error: " : "";
}

// The finding's usual cause, else the usual mistake of the scenario where it is a check that
// failed. An exception says itself what is wrong.
std::string cause_of(const Result& result, const Finding& finding) {
  const auto* before = wrong_before(result);
  for (const auto* each : {&finding, before})
    if (auto cause = each ? usual_cause(*each) : ""; !cause.empty()) return cause;
  const bool is_of_a_check = result.kind == Result::Kind::fail || result.kind == Result::Kind::leak;
  if (!is_of_a_check || !result.failure || states_its_cause(finding)) return "";
  const auto& mistake = result.failure->usual_mistake;
  return mistake.substr(0, mistake.size() - (mistake.ends_with('.') ? 1 : 0));
}

// The case's program in plain words, and what is known of such a finding: its usual cause, or that
// the backend and not the subject cannot.
std::vector<std::string> plain_words(const Result& result) {
  std::vector<std::string> lines;
  const auto add = [&](const std::string& name, const std::string& text) {
    if (!text.empty()) lines.push_back(name + ": " + text);
  };
  if (result.failure) add("program", result.failure->program);
  if (const auto* finding = first_finding(result)) {
    add("usual cause", finding->limit.empty() ? cause_of(result, *finding) : "");
    add("limit", finding->limit);
  }
  return lines;
}

// The story of a result without its other signatures.
std::vector<std::string> story_of_one(const Result& result, const std::string& program,
                                      const Style& style) {
  if (result.kind == Result::Kind::pass || result.kind == Result::Kind::skip) return {};
  const bool certain = result.kind != Result::Kind::inconclusive;
  std::vector<std::string> lines{(certain ? "✗ " : "? ") + headline_of(result)};
  lines.push_back("  " + ending_text(result) + diagnosis_of(result));
  for (const auto& line : plain_words(result)) lines.push_back("  " + line);
  if (const auto count = count_text(result); !count.empty())
    append(lines, labelled("found in", {count}));
  if (result.failure) append(lines, case_lines(*result.failure));
  append(lines, archived_line(result));
  if (const auto* finding = first_finding(result)) append(lines, shown_below(*finding, style));
  for (const auto& line : more_lines(result)) lines.push_back("  " + line);
  if (result.failure)
    append(lines, where_to_go_on(result, program));
  else if (has_explanation(result))
    append(lines, labelled("read", {read_command(result, program)}));
  return lines;
}

}  // namespace

std::string rule_of(const Result& result) {
  if (result.kind == Result::Kind::flaky)
    return "The same case must give the same verdict every time";
  const auto* finding = first_finding(result);
  return finding ? finding->rule : result.claim;
}

std::string headline_of(const Result& result) {
  return ending_text(result).empty() ? rule_of(result) : result.claim;
}

std::string diagnosis_of(const Result& result) {
  const auto* finding = first_finding(result);
  const auto first = finding ? finding->diagnosis : "";
  if (result.kind != Result::Kind::flaky || !result.failure) return first;
  return runs_text(*result.failure) + "; the first " + std::string(name_of(result.worst.kind)) +
         ": " + first;
}

std::string replay_command(const Result& result, const std::string& program) {
  if (!result.failure || result.failure->case_file.empty()) return "";
  const auto& [subject, tier, backend] = result.setting;
  const auto lockstep = shell_word(program);
  // In a new launched world, not the one that it failed in, so any launcher will do.
  const auto* const traits = find_tier(tier);
  const std::string launched =
      traits && traits->is_launched
          ? lockstep + " launch -n " + std::to_string(world_size(result.failure->c)) + " "
          : "";
  return launched + lockstep + " replay " + shell_word(result.failure->case_file) +
         (subject == Setting().subject ? "" : " --subject " + shell_word(subject)) +
         (tier == Setting().tier ? "" : " --tier " + shell_word(tier)) +
         (backend == Setting().backend || (traits && backend == traits->own_backend)
              ? ""
              : " --backend " + shell_word(backend));
}

std::string count_text(const Result& result) {
  const auto count = result.signatures.find(result.worst.signature());
  if (count == result.signatures.end() || !result.failure) return "";
  return with_commas(count->second) + " of " + counted(result.judged, "case") +
         ", the first is number " + std::to_string(result.failure->number);
}

StoryParts story_parts(const Result& result, const std::string& program) {
  StoryParts parts{.rule = headline_of(result),
                   .diagnosis = ending_text(result) + diagnosis_of(result),
                   .count = count_text(result),
                   .plainly = plain_words(result),
                   .more = more_lines(result),
                   .replay = replay_command(result, program),
                   .read = has_explanation(result) ? read_command(result, program) : ""};
  if (!result.failure) return parts;
  parts.smallest_case = case_lines(*result.failure);
  append(parts.smallest_case, archived_line(result));
  parts.evidence = evidence_of(*result.failure);
  if (!result.failure->logs.empty()) parts.logs = shell_word(result.failure->logs);
  return parts;
}

std::vector<std::string> story(const Result& result, const std::string& program,
                               const Style& style) {
  std::vector<std::string> lines;
  for (const auto& one : by_signature(result)) {
    if (!lines.empty()) lines.emplace_back();
    append(lines, story_of_one(one, program, style));
  }
  for (const auto& remark : result.remarks) {
    if (!lines.empty()) lines.emplace_back();
    append(lines, remark_lines(remark, style));
  }
  return lines;
}

}  // namespace lockstep::reports
