// Finds the rank of a program that is to blame, from how the ranks ended and from the files in
// which they report why they failed, as torchrun's ranks do.
#pragma once

#include "cli/launch/program_ranks.h"

#include <optional>

namespace lockstep::cli {

// The TORCHELASTIC_ERROR_FILE of a rank.
std::filesystem::path error_file_of(const ProgramRanks& ranks, int rank);

// The content of such a file.
struct ReportedError {
  std::string sentence;
  std::optional<int64_t> time_ns;  // since the epoch; of ranks that use Lockstep
};

// Nothing where there is none. Pure except for reading it.
std::optional<ReportedError> error_reported_in(const std::filesystem::path& file);

// The rank to blame, among ranks where one ended badly.
int first_failed(const ProgramRanks& ranks, const GroupReport& report);

// "rank 2 failed first, with exit code 3: ..."; or that all exited alike.
std::string failure_text(const ProgramRanks& ranks, const GroupReport& report, int rank);

// "rank 1 did not end in time and was killed"; or "".
std::string killed_text(const GroupReport& report);

}  // namespace lockstep::cli
