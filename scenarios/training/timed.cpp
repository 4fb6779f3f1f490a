#include "scenarios/training/timed.h"

#include "harness/base/values.h"
#include "harness/verdict/compare.h"

namespace lockstep::scenarios::training {

namespace {

constexpr const char *kEnd = "end", *kTimed = "timed_iterations", *kHasLog = "has a log";

}  // namespace

int timed_passes(const Loop& c) {
  constexpr int kAlways = 10, kOneIn = 100;
  const int one_in = c.timed_passes == 0 ? kOneIn : c.timed_passes;
  int count = 0;
  for (int pass = 0; pass < c.steps; ++pass) count += pass < kAlways || pass % one_in == 0 ? 1 : 0;
  return count;
}

void record_timed_passes(const Loop& c, RankContext& here, const Replica& replica) {
  const auto log = replica.log();
  here.enter(c.steps - 1, kEnd);
  here.record(kHasLog, std::vector<int64_t>{log.has_value()});
  here.record(kTimed, std::vector<int64_t>{log ? log->timed_iterations : 0});
}

Findings passes_are_timed_as_often_as_said(const Loop& c, const History& h) {
  const Moment end{c.steps - 1, kEnd};
  if (as_integers(h.row(end, kHasLog).by_rank.front()).front() == 0) return {};
  return equal("A replica must time its first ten passes, and then one in as many as it was told",
               {{.row = h.row(end, kTimed), .expected = {int64_values({timed_passes(c)})}}});
}

}  // namespace lockstep::scenarios::training
