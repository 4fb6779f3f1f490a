// Which cases a scenario is judged on: archived failures, then the exhaustive ones, then cases
// drawn from the run's seed, growing in size over the first quarter. The same options give the same
// list, always.
#pragma once

#include "harness/core/scenario.h"

#include <optional>
#include <utility>

namespace lockstep {

struct DrawOptions {
  uint64_t seed = 0;

  // Drawn cases a scenario; the scenario's own number by default. A scenario that draws none by
  // default draws none here either.
  std::optional<int> cases;

  // Where not empty: every case has one of these world sizes, exhaustive cases each of them.
  std::vector<int> worlds;

  // Drawn cases that say nothing of how a simulated world is run get an order of ranks and of
  // reductions of their own. Other worlds make nothing of it.
  bool schedules = false;

  // Results of one drawn case in four that has no injections come late on a device (core/case.h).
  // Other worlds make nothing of it.
  bool late_results = false;

  // Fields fixed by path, "samples[1]" and "4".
  std::vector<std::pair<std::string, std::string>> set;
};

// No case comes twice. Archived cases that `worlds` or `set` would change are left out. Throws
// FieldError where `set` leads nowhere or leaves the limits of a field.
std::vector<Case> draw_cases(const Scenario& scenario, const DrawOptions& options,
                             const std::vector<Case>& archived = {});

// The value of a case for people: all of it but what concerns simulated worlds alone and is as
// ever.
Json told_of(const Case& c);

// The fields of `value` that differ from `defaults`, nested as they were; lists count whole.
Json unlike(const Json& value, const Json& defaults);

}  // namespace lockstep
