// The invariants' judgements of a recorded run, as the results that reports render.
#pragma once

#include "harness/cases/result.h"
#include "harness/invariants/against/against.h"

namespace lockstep::recorded {

// How a user wants findings taken.
struct Allowances {
  std::vector<std::string> invariants;  // names of invariants whose findings are remarks
  bool is_strict = false;               // remarks are failures, but for those of `invariants`
};

// Throws FieldError, whose text starts with `where`, for a name that is no invariant's.
void check_invariant_name(const std::string& name, const std::string& where);

// The names of invariants in a file, one a line; the rest of a line from # on is for people. Throws
// FieldError.
std::vector<std::string> read_allowances(const std::filesystem::path& file);

// One result an invariant, each of one case: the run. An invariant that the run gives nothing to
// judge is a skip with its reason. Where there is a run of one process, or an earlier run that this
// one resumes, its invariants come last. The caller fills in the name and version of its program,
// and the cores.
Run judged(const RecordedRun& recorded, const OneProcess* one = nullptr,
           const Allowances& allowances = {}, const RecordedRun* before = nullptr);

// False for a run of several ranks of which no invariant compared the parameters, such as one whose
// parameters are divided over the ranks, and where nothing could be compared with the run that was
// given beside it. Then a pass of the other invariants is no answer.
bool compared_what_was_asked(const Run& run);

}  // namespace lockstep::recorded
