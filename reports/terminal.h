// The output of a run for a person, piece by piece: the headline, a line for each result with its
// story where it did not pass, and the summary.
#pragma once

#include "harness/cases/result.h"
#include "reports/style.h"

#include <string>
#include <vector>

namespace lockstep::reports {

// The widths of a result line's columns, by the run's jobs: known before the first result.
struct Columns {
  size_t scenario = 0, setting = 0, exactness = 0;
};
Columns columns_for(const Run& run);

// Each text ends with a newline. A result's text is its line and its story; a pass has no story.
std::string headline(const Run& run, const Style& style);
std::string result_line(const Result& result, const Run& run, const Columns& columns,
                        const Style& style);
std::string story_text(const Result& result, const std::string& program, const Style& style);
std::string result_text(const Result& result, const Run& run, const Columns& columns,
                        const Style& style);
std::string summary(const Run& run, const Style& style);

// A line for each of the `most` cases that took longest; empty where no case ran.
std::string slowest(const Run& run, size_t most, const Style& style);

}  // namespace lockstep::reports
