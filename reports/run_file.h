// run.json and --json: everything a run found, for programs. "lockstep_run" is the version of the
// format; fields are only ever added to a version. run_fields.h has them.
#pragma once

#include "harness/cases/result.h"

namespace lockstep::reports {

inline constexpr int kRunVersion = 1;
Json run_json(const Run& run);

// The text of a file that holds `json`. Bytes that are not UTF-8 are replaced.
std::string file_text(const Json& json);

// The run whose run_json is `text` again. Strict, since the run decides an exit status: every field
// must be present, of its type, in its range, and consistent with the others, but for unknown ones,
// and for those that follow from others, which are computed. A field that no file holds (program)
// is as in a new Run. Throws FieldError, whose text starts with `file` and the path of the wrong
// value.
Run parse_run_file(const std::string& text, const std::string& file);

// The same for a file; also throws FieldError for one that cannot be read.
Run read_run_file(const std::filesystem::path& file);

}  // namespace lockstep::reports
