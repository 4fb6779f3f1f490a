#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace lockstep {

// The posts of a FailureNotice in the store, as texts that hold any sentence. Pure; a text that is
// no post gives nothing.

// A rank's post at its end.
struct EndOfRank {
  int rank = 0;
  // `moment` is that of the last forward that FailureNotice numbers.
  std::int64_t issued_count = 0, moment = 0, pass_count = 0;
};
std::string text_of(const EndOfRank& end);
std::optional<EndOfRank> end_in(const std::string& text);

// A rank's report: it ends waits of ranks that are at `moment` or before it, for collectives before
// which `issued_count` others or more were issued.
struct Report {
  int rank = 0;
  std::int64_t moment = 0, issued_count = 0;
  std::string sentence;
};
std::string text_of(const Report& report);
std::optional<Report> report_in(const std::string& text);

}  // namespace lockstep
