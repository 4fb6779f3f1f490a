// Traces as files and as text.
#pragma once

#include "harness/recorded/recorded_run.h"

namespace lockstep::cli {

// Writes the trace of a run to `out`, beside and renamed, so that a link in a stranger's folder is
// replaced and not followed. Returns its table and where it is, for people. Throws UsageError.
std::string traced(const recorded::RecordedRun& run, const std::filesystem::path& out);

}  // namespace lockstep::cli
