// How far the cases of a run covered what they should: shares of labels, pairs of options,
// schedules.
#pragma once

#include "harness/cases/result.h"

namespace lockstep::reports {

// "16,384 schedules, all of 2 of 3 cases, the others up to decision 12"; empty where no case ran in
// every schedule.
std::string schedules_text(const ScheduleCounts& counts);

// Lines of a run's summary; empty where there is nothing to say. How many required shares are met
// and which is the closest, and which results drew too few cases.
std::string shares_text(const Run& run);

// The pairs of options in the lists of cases that were drawn; the same list in several settings
// counts once.
std::string pairs_text(const Run& run);

// The reason for which most of the refused cases were refused; there is one at least.
std::string weightiest_reason(const Result& result);

}  // namespace lockstep::reports
