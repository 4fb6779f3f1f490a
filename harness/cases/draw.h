// The cases on which a scenario is judged: archived failures, then the exhaustive ones, then cases
// drawn from the run's seed, growing in size over the first quarter. The same options always give
// the same list, whatever is archived: a case that is comes first instead of in its place.
//
// Each drawn case is the best of a few draws. For every second one it is drawn first which options
// may be on at all (swarm): where most options are on in most cases, a mistake that shows only
// without one of them is hidden. The draw with the fewest others on is taken, and of equal ones
// that which covers the most new pairs of options. Since each is a draw of the scenario's own, it
// meets the scenario's precondition; where `worlds` or `set` break that, a draw that meets it is
// taken if there is one.
#pragma once

#include "harness/cases/case_list.h"

#include <optional>
#include <utility>

namespace lockstep {

struct DrawOptions {
  uint64_t seed = 0;

  // Drawn cases for each scenario; by default the scenario's own number. A scenario that draws none
  // by default draws none here either.
  std::optional<int> cases;

  // A third of the scenario's own number, at least 25 if it draws so many: a first look.
  bool a_third = false;

  // The archived cases and no others.
  bool only_archived = false;

  // If not empty: every case has one of these world sizes, and exhaustive cases each of them.
  std::vector<int> worlds;

  // Drawn cases that specify nothing of how a simulated world runs get an order of ranks and of
  // reductions of their own. Other worlds ignore it.
  bool schedules = false;

  // In one drawn case in six without injections a rank stands still for a tenth of a second before
  // one of its first collectives: as long as ranks wait before they look for a peer's error.
  bool lags = false;

  // Results of one drawn case in four without injections arrive late on a device (base/case.h).
  // Other worlds ignore it.
  bool late_results = false;

  // Fields fixed by path, "samples[1]" and "4".
  std::vector<std::pair<std::string, std::string>> set;
};

// No case occurs twice. Archived cases that `worlds` or `set` would change are left out. `on_draw`
// is called for each case that is examined, and no longer than the call. Throws FieldError where a
// path of `set` does not exist or its value violates the limits of a field.
CaseList draw_cases(const Scenario& scenario, const DrawOptions& options,
                    const std::vector<Case>& archived = {}, std::function<void()> on_draw = {});

// The same list, and on request a longer one: at each call with about a quarter more drawn cases,
// at least as many as the scenario draws and at most a thousand. A call that finds no case that is
// new returns the list unchanged. Cases do not depend on how long the list becomes. Copies grow
// together.
class GrowingCases {
 public:
  GrowingCases() = default;  // of no scenario: no cases
  GrowingCases(const Scenario& scenario, const DrawOptions& options,
               const std::vector<Case>& archived = {}, std::function<void()> on_draw = {});
  const CaseList& list() const { return list_; }
  const CaseList& grow();

 private:
  class Drawer;
  std::shared_ptr<Drawer> drawer_;
  CaseList list_;
};

}  // namespace lockstep
