// The canaries of `judge`: recorded runs with one mistake each, which the invariants must find, at
// least one for each invariant and for each way in which a rank ends. All are judged in every
// `judge`: one whose mistake is not found says that its invariant is blind.
#pragma once

#include "harness/invariants/invariants.h"

#include <functional>

namespace lockstep::recorded {

struct Canary {
  const char *invariant, *pattern;          // of the first finding or remark that it must give
  std::function<void(RecordedRun&)> plant;  // into a right run of two ranks
};

const std::vector<Canary>& canaries();

// Names each canary that was not found, as "gradients.are_the_same: no_two_ranks_agree", and as
// "false alarm: INVARIANT" each invariant that finds something in a right run.
std::vector<std::string> blind_invariants();

}  // namespace lockstep::recorded
