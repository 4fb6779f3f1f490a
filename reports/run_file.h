// The inverse of reports/json: reads a run from its run.json. Strict, since the run decides an exit
// status: every field that this program writes must be present, of its type, in its range, and
// consistent with the others. Unknown fields are ignored.
#pragma once

#include "harness/cases/result.h"

namespace lockstep::reports {

// run_json of the result is `json` again. A field that no file holds (program) is as in a new Run.
// Throws FieldError, whose text starts with `file` and the path of the wrong value.
Run run_of(const Json& json, const std::string& file);

// The same for text and for a file; also throws FieldError for a file that cannot be read or is not
// JSON.
Run parse_run_file(const std::string& text, const std::string& file);
Run read_run_file(const std::filesystem::path& file);

}  // namespace lockstep::reports
