// Why a result did not pass, in plain text: the rule, the diagnosis, the case, where it first
// shows, and what to do next. Nothing is decided here; every sentence comes from the result.
#pragma once

#include "harness/cases/result.h"
#include "reports/style.h"

#include <string>
#include <vector>

namespace lockstep::reports {

// The rule that does not hold, one sentence. A flaky result breaks a rule of its own.
std::string rule_of(const Result& result);

// Returns what a story begins with: that rule, or the claim where ranks ended badly, since the rule
// that they must return says nothing of what was asked of them.
std::string headline_of(const Result& result);

// The diagnosis of the first finding.
std::string diagnosis_of(const Result& result);

// The command that replays the failing case; `program` is how to start the program. Empty where the
// case is in no file.
std::string replay_command(const Result& result, const std::string& program);

// "12 of 30 cases, the first is number 7": how often the result's signature occurred, where the run
// kept going; else empty.
std::string count_text(const Result& result);

// The parts of the story of one signature, for a page that lays them out itself; each may be empty
// but the rule.
struct StoryParts {
  std::string rule, diagnosis, count;
  std::vector<std::string> plainly;        // the program, and what usually goes wrong there
  std::vector<std::string> smallest_case;  // with what does not matter marked
  std::vector<std::string> more;           // what else is wrong
  std::string replay, read, logs;          // commands, and a folder; empty: there is none
  std::vector<std::string> evidence;       // call sites, the stack and the last lines of a rank
};
StoryParts story_parts(const Result& result, const std::string& program);

// The whole story without the result's own line and without colour; it may hold Unicode. Each of
// several signatures has its own story, after an empty line. Empty for a pass and a skip. Its
// tables fit the style; its sentences are not broken.
std::vector<std::string> story(const Result& result, const std::string& program,
                               const Style& style = {});

}  // namespace lockstep::reports
