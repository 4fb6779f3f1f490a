// Sums over the ranks that a program forms in a join beside its replica and optimizers.
#pragma once

#include "harness/rank/rank_context.h"
#include "harness/verdict/compare.h"
#include "harness/worlds/subject.h"
#include "scenarios/join/joined.h"

namespace lockstep::scenarios::join {

inline constexpr const char* kJoined = "after the join";

// One, of each step.
class OwnSum : public BesideReplica {
 public:
  OwnSum(RankContext& here, int number) : here_(here), number_(number) {}

  void add(int step);
  void shadow() override;
  void all_have_joined(int last_rank) override;

  // Each sum of this rank's steps in the join, how many it shadowed, and what it received at the
  // end: for which time, from whom, and the total.
  void record() const;

 private:
  int64_t summed(int64_t number) const;

  RankContext& here_;
  const int number_;
  std::vector<int64_t> totals_, joined_;
  int64_t shadowed_ = 0, joins_ = 0;
};

Findings own_sums_are_shadowed(const Joined& c, const History& h);

}  // namespace lockstep::scenarios::join
