// Shrinking by value: from a case that shows a failure down to one of which no smaller case shows
// it, a step of Scenario::smaller at a time.
//
// Steps are tried in order of their cost to a reader (base/fields.h), and the first that still
// fails is taken; the search continues behind it and goes round until a whole round fails to find
// one. Then two steps are tried at once, which leads out of minima where two fields depend on each
// other, such as a number of groups that divides the world. A smaller world loses its last ranks;
// so that another rank can leave, each list of numbers is also tried with that rank's element left
// out. A step that leaves the precondition of the scenario is not taken, but is the first of two.
#pragma once

#include "harness/cases/trials.h"

namespace lockstep {

// Where a field is in the JSON of a case.
Json::json_pointer pointer_to(const Leaf& leaf);

// Returns the cases that meet the precondition of the scenario, in their order.
std::vector<Case> within_precondition(const Scenario& scenario, std::vector<Case> cases);

// The same case with 1, 2, ... `most` more in the field of that path and type, where it has one and
// meets the precondition.
std::vector<Case> with_more(const Scenario& scenario, const Case& c, std::string_view path,
                            Leaf::Type type, uint64_t most);

struct Descent {
  std::vector<Case> path;    // from the start, each failing; the last one is the smallest
  bool is_smallest = false;  // no single step further down fails

  const Case& smallest() const { return path.back(); }
};

// `start` shows the failure. `on_step` is called with every smaller case that does, and the number
// of steps so far.
Descent shrink(const Scenario& scenario, const Case& start, Search& search,
               const std::function<void(const Case&, int steps)>& on_step = {});

}  // namespace lockstep
