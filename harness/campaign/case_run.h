// One run of a case with its verdict, and what several runs of the same case say together. Knows
// no lanes, slots or listeners: the campaign decides when and where a case is run.
#pragma once

#include "harness/campaign/tally.h"

namespace lockstep {

struct CaseRun {
  History history;
  Verdict verdict;
  std::string lost = {};  // why the tier cannot run any more, or empty
};

// Blocks until the case has ended; one that does not meet the precondition of its scenario is
// refused without a run. A tier that breaks (TierError, TierLost) makes the verdict inconclusive;
// everything else that it throws, such as Interrupted, comes out.
CaseRun run_case(Tier& tier, const Scenario& scenario, const Case& c, const Setting& setting,
                 const CaseRunOptions& options);

// True if the verdict is run_case's of a tier that broke: it says nothing about the case.
bool tier_broke(const Verdict& verdict);

// How often a case that failed like this is run in all.
int runs_wanted(Verdict::Kind kind);

// Some cases that passed in a simulated world are run a second time, since such a world repeats
// itself. `with_replay` is the first run with what the second one adds: its failure, or that its
// history is another one.
bool wants_replay(const Job& job, size_t index, const Verdict& first);
CaseRun with_replay(CaseRun first, CaseRun second);

// How many ranks a run of a case of that size has alive at once.
int ranks_alive(const Setting& setting, int world_size);
int ranks_alive(const Job& job, size_t index);

}  // namespace lockstep
