// The histories that a run keeps beside its results, so that a page can show what happened: of each
// failing case that a story may be about, and of one passing case of each family of scenarios. In
// the folder of the run:
//
//   histories/<name>/case.json            the case, where it ran, and the verdict
//   histories/<name>/rank<r>.history      what each rank recorded (docs/protocol.md, section 2)
#pragma once

#include "harness/cases/result.h"

namespace lockstep {

struct KeptHistory {
  Case c;
  Setting setting;
  int number = 1;  // among its scenario's cases
  Verdict::Kind verdict = Verdict::Kind::pass;
  History history;
};

inline constexpr size_t kHistoriesMost = 64;                   // of a run
inline constexpr size_t kHistoryBytesMost = 1 << 20;           // of a case that does not hold
inline constexpr size_t kPassingHistoryBytesMost = 128 << 10;  // of one that passes

// The files of a history by name; nothing where they would take more bytes than are kept.
std::vector<std::pair<std::string, std::string>> files_of(const KeptHistory& kept);

// All in `folder`, by name; none where there is no such folder. Throws FieldError for files that no
// run wrote.
std::vector<KeptHistory> read_histories(const std::filesystem::path& folder);

}  // namespace lockstep
