// The inverse of reports/json: a run out of its run.json. Strict, since what is read here decides
// an exit status: every field that this program writes must be there, be of its type and in its
// range, and agree with the others. Fields that it does not know are left alone.
#pragma once

#include "harness/core/result.h"

namespace lockstep::reports {

// run_json of the result is `json` again. What no file holds is as in a new Run: program. Throws
// FieldError, whose text starts with `file` and the path of what is wrong.
Run run_of(const Json& json, const std::string& file);

// The same for text and for a file; also throws it for what cannot be read or is no JSON.
Run parse_run_file(const std::string& text, const std::string& file);
Run read_run_file(const std::filesystem::path& file);

}  // namespace lockstep::reports
