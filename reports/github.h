// Output for GitHub Actions: annotations of the job, and the step's summary.
// https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands
#pragma once

#include "harness/cases/result.h"

#include <string>

namespace lockstep::reports {

// GitHub shows ten per step, and adds one itself when the step's exit status is not zero.
inline constexpr size_t kAnnotationsMost = 9;

// GitHub drops a summary of more than 1 MiB entirely.
inline constexpr size_t kSummaryBytesMost = (1 << 20) - 1;

// Workflow commands, one per line: an error for each failure, a warning for each result that could
// not be judged. Where there are more than `kAnnotationsMost`, the last one counts the omitted
// ones.
std::string annotations(const Run& run);

// Markdown of at most `bytes_most`: one line per result, then the story of each that did not pass,
// in code fences that their content cannot close. Stories that do not fit are counted.
std::string step_summary(const Run& run, size_t bytes_most = kSummaryBytesMost);

}  // namespace lockstep::reports
