// run.json and --json: everything a run found, for programs. "lockstep_run" is the version of the
// format; fields are only ever added to a version.
#pragma once

#include "harness/cases/result.h"

namespace lockstep::reports {

inline constexpr int kRunVersion = 1;
Json run_json(const Run& run);

// The text of a file that holds `json`. Bytes that are not UTF-8 are replaced.
std::string file_text(const Json& json);

}  // namespace lockstep::reports
