// When the ranks of a recorded run computed and communicated, and which rank waited for which. The
// times are those that the ranks recorded; where they did not, they are unknown, and nothing is
// guessed.
#pragma once

#include "harness/base/table.h"
#include "harness/recorded/recorded_run.h"

#include <iosfwd>

namespace lockstep::recorded {

// One collective of one rank. A rank waits from the time at which it issued the collective until
// the last rank of the group did.
struct TimedCollective {
  Collective is;
  int64_t from_ns = -1, to_ns = -1;  // -1: unknown, or never done
  int64_t waited_ns = 0;
  int last_rank = -1;  // the rank that issued it last; -1: unknown

  int64_t took_ns() const { return to_ns < 0 ? 0 : to_ns - from_ns; }
};

// One update of a rank, with what led to it since the update before.
struct Step {
  int64_t number = 0, from_ns = 0, to_ns = 0;
};

struct RankTimeline {
  std::vector<Span> spans;
  std::vector<Step> steps;
  std::vector<TimedCollective> collectives;  // those that were issued at a known time
};

struct Timeline {
  std::vector<RankTimeline> ranks;
  int64_t begin_ns = 0, end_ns = 0;  // of everything
  bool has_one_clock = true;         // otherwise no rank's time is compared with another's
};

Timeline timeline_of(const RecordedRun& run);

// The communication of one rank within its backward passes. It is exposed from the time at which
// the rank issued the last collective of a pass, since nothing is left to compute then, until all
// of them are done; before, it overlaps with computation.
struct Overlap {
  int64_t overlapped_ns = 0, exposed_ns = 0;
  size_t collectives = 0;
};
Overlap overlap_of(const RankTimeline& rank);

// Collectives that stand for those which a recorder cannot see: "ddp_backward".
bool stands_for_others(const Collective& collective);

// Says in sentences and tables what was sent, which rank waited for which, and where time went.
Details timeline_details(const RecordedRun& run, const Timeline& timeline);

// The timeline in the format of Chrome's trace viewer and of Perfetto: a process a rank, with
// tracks of its steps and of what the program did, and its collectives.
void write_trace(const RecordedRun& run, const Timeline& timeline, std::ostream& out);

}  // namespace lockstep::recorded
