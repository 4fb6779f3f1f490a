// One process that trains without a wrapper, beside ranks that have one.
#pragma once

#include "harness/invariants/against/against.h"

#include <set>

namespace lockstep::recorded {

// The runs of one process with the names that the ranks have: what is "parameter 0" of "optimizer
// 0" there is "0.weight" of "model 0" here.
struct OneRenamed {
  OneProcess one;
  std::set<std::string> models;
};

// Nothing where one process wraps its models, or the ranks do not; nor where an optimizer of the
// ranks updates less or more than whole models.
std::optional<OneRenamed> with_names_of_ranks(const OneProcess& one, const RecordedRun& run);

}  // namespace lockstep::recorded
