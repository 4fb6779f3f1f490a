// The HTML page of a run, with the histories that it kept.
#pragma once

#include "harness/cases/result.h"
#include "harness/recorded/recorded_run.h"

#include <string>
#include <vector>

namespace lockstep::cli {

// `folders` are those of the runs. Throws FieldError for histories that no run wrote.
std::string page_of(const Run& run, const std::vector<std::filesystem::path>& folders);

// The page of a recorded run of a program, whose history it shows.
std::string page_of(const Run& run, const recorded::RecordedRun& recorded);

}  // namespace lockstep::cli
