// Optimizers that have other parameters on each rank, which sends what it updated: ZeRO by hand.
#pragma once

#include "harness/invariants/rows.h"

#include <map>
#include <set>

namespace lockstep::recorded {

// True if the ranks' optimizers have unlike parameters of no model that a recorder knows, which
// never become the same, and each rank in every step reduces at least as many elements as it
// updates, and is the source of as many.
bool updates_own_parts(const RecordedRun& run);

// Names, of a run with such optimizers, a rank which sends less than it updates.
Details unsent_parts(const RecordedRun& run);

// Finds tensors whose updates are lost: some ranks update them, and what the program sends before
// the next forward gives all ranks what they had before.
class LostUpdates {
 public:
  explicit LostUpdates(const RecordedRun& run) : run_(run) {}

  // `before` has the ranks' parameters before this update, or none, `forward` those in the forward
  // after it.
  void look(const Row& update, std::vector<const Digests*> before, const Row& forward);

  // Where a tensor lost each of two updates or more, others kept theirs, and a rank sends less than
  // it alone updates: else the program may have put the values back, as a clamp does.
  std::optional<Finding> finding() const;
  const Moment& at() const { return at_; }

 private:
  struct Lost {
    std::string of, name;
    auto operator<=>(const Lost&) const = default;
  };
  const RecordedRun& run_;
  bool sends_less_ = false;
  std::map<Lost, size_t> lost_;
  std::set<Lost> kept_;
  Moment at_;  // of the first lost one
};

}  // namespace lockstep::recorded
