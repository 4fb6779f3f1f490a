// Chooses the rank of a simulated world that runs next: a pure function of the case's schedule and
// of the choices made so far. No torch.
#pragma once

#include "harness/base/case.h"

#include <vector>

namespace lockstep::sim {

// One choice: the one taken, and how many there were.
struct Choice {
  int taken = 0, of = 1;
  bool operator==(const Choice&) const = default;
  static constexpr auto fields() {
    return std::tuple{field("taken", &Choice::taken, at_least(0)),
                      field("of", &Choice::of, at_least(1))};
  }
};

class Chooser {
 public:
  // "exhaustive" chooses as "listed" does: the caller lists every sequence of choices
  // (EverySchedule).
  Chooser(const Schedule& schedule, int ranks);

  // Returns one of `runnable`, which holds ranks in ascending order and is not empty.
  int choose(const std::vector<int>& runnable);

  // The choices between several ranks, in order; the first kKeptMost.
  static constexpr size_t kKeptMost = 4096;
  const std::vector<Choice>& choices() const { return choices_; }

 private:
  size_t index_among(const std::vector<int>& runnable);
  size_t first_in_priority(const std::vector<int>& runnable);

  const Schedule schedule_;
  std::vector<uint64_t> priority_;  // by rank; the largest runs
  std::vector<uint64_t> changes_;   // the numbers of the choices at which priorities change
  uint64_t made_ = 0;
  std::vector<Choice> choices_;
};

}  // namespace lockstep::sim
