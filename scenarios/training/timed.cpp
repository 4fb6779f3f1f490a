#include "scenarios/training/timed.h"

#include "harness/base/values.h"
#include "harness/verdict/compare.h"

namespace lockstep::scenarios::training {

namespace {

constexpr const char *kEnd = "end", *kTimed = "timed_iterations", *kHasLog = "has a log",
                     *kOverlaps = "communication overlaps the backward";

bool overlaps(const ReplicaLog& log) {
  return log.times[3] > 0 && log.average_times[3] > 0;
}

Moment end_of(const Loop& c) {
  return {c.steps - 1, kEnd};
}

bool has_log(const Loop& c, const History& h) {
  return as_integers(h.row(end_of(c), kHasLog).by_rank.front()).front() != 0;
}

}  // namespace

int timed_passes(const Loop& c) {
  constexpr int kAlways = 10, kOneIn = 100;
  const int one_in = c.timed_passes == 0 ? kOneIn : c.timed_passes;
  int count = 0;
  for (int step = 0; step < c.steps; ++step) {
    const int pass = begins_anew(c) && step >= c.begins_anew ? step - c.begins_anew : step;
    count += pass < kAlways || pass % one_in == 0 ? 1 : 0;
  }
  return count;
}

void record_timed_passes(const Loop& c, RankContext& here, const Replica& replica) {
  const auto log = replica.log();
  here.enter(c.steps - 1, kEnd);
  here.record(kHasLog, std::vector<int64_t>{log.has_value()});
  here.record(kTimed, std::vector<int64_t>{log ? log->timed_iterations : 0});
  here.record(kOverlaps, std::vector<int64_t>{log && overlaps(*log)});
}

Findings passes_are_timed_as_often_as_said(const Loop& c, const History& h) {
  if (!has_log(c, h)) return {};
  return equal(
      "A replica must time its first ten passes, and then one in as many as were asked for",
      {{.row = h.row(end_of(c), kTimed), .expected = {int64_values({timed_passes(c)})}}});
}

// From its second pass on, and anew from the second one after it began anew, a replica has its
// buckets in the order in which gradients arrive.
bool fills_a_bucket_early(const Loop& c) {
  const int last_passes = begins_anew(c) ? c.steps - c.begins_anew : c.steps;
  return last_passes > 1 && parameter_count(c) > 1 && c.bucket_cap_bytes == 1;
}

Findings buckets_leave_as_they_fill(const Loop& c, const History& h) {
  if (!has_log(c, h) || !fills_a_bucket_early(c)) return {};
  return equal(
      "A timed pass must count communication from the first bucket that leaves",
      {{.row = h.row(end_of(c), kOverlaps), .expected = {int64_values({1})}, .explanations = [] {
          return Explanations{recorded_instead(
              {"no_overlap", "none: its time begins after the backward"}, {int64_values({0})})};
        }}});
}

}  // namespace lockstep::scenarios::training
