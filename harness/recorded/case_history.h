// A case of a scenario that a program which is not ours has run: a history for each rank, in the
// format of docs/protocol.md, section 2. The files may come from a stranger.
#pragma once

#include "harness/base/case.h"
#include "harness/history/history.h"

#include <filesystem>

namespace lockstep::recorded {

// Reads the bytes of one file, which is named so in messages.
RankHistory read_case_rank(const std::string& bytes, int rank, const Case& c,
                           const std::string& file);

// Reads history_files of `folder`. A rank that left no file, or an unfinished one, ends there as
// cut off. Throws FieldError, whose text starts with the file, for what no writer of the protocol
// makes, and for the history of another case, world or rank.
History read_case_history(const std::filesystem::path& folder, const Case& c);

}  // namespace lockstep::recorded
