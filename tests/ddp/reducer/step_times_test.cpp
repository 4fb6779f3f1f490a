#include "ddp/reducer/step_times.h"

#include "ddp/errors.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

using std::chrono::nanoseconds;

nanoseconds the_time{0};
StepTimes::Clock::time_point now() {
  return StepTimes::Clock::time_point(the_time);
}

// Forward takes 10, backward 20, of which the last 5 overlap with communication, which takes 12.
void step(StepTimes& times, std::int64_t iteration, int unit) {
  times.forward_begins(iteration);
  the_time += nanoseconds(10 * unit);
  times.backward_begins();
  the_time += nanoseconds(15 * unit);
  times.first_bucket_leaves();
  the_time += nanoseconds(2 * unit);
  times.first_bucket_leaves();  // the second of them does not count
  the_time += nanoseconds(3 * unit);
  times.backward_computed();
  the_time += nanoseconds(7 * unit);
  times.buckets_are_back();
  the_time += nanoseconds(1000);
}

TEST(StepTimes, AreThoseOfTheLastStepAndTheirAverages) {
  StepTimes times(100, now);
  LoggingData data;
  times.fill(data);
  EXPECT_EQ(data.timed_iterations, 0);
  step(times, 0, 1);
  step(times, 1, 3);
  times.fill(data);
  EXPECT_EQ(data.timed_iterations, 2);
  EXPECT_EQ(data.forward_compute_time, nanoseconds(30));
  EXPECT_EQ(data.backward_compute_time, nanoseconds(60));
  EXPECT_EQ(data.backward_comm_time, nanoseconds(36));
  EXPECT_EQ(data.backward_compute_comm_overlap_time, nanoseconds(15));
  EXPECT_EQ(data.avg_forward_compute_time, nanoseconds(20));
  EXPECT_EQ(data.avg_backward_compute_time, nanoseconds(40));
  EXPECT_EQ(data.avg_backward_comm_time, nanoseconds(24));
  EXPECT_EQ(data.avg_backward_compute_comm_overlap_time, nanoseconds(10));
}

TEST(StepTimes, OfTheFirstTenStepsAndThenOfOneInSoMany) {
  for (const int sample_rate : {1, 7, 100}) {
    StepTimes times(sample_rate, now);
    std::int64_t expected = 0;
    for (std::int64_t iteration = 0; iteration < 250; ++iteration) {
      step(times, iteration, 1);
      expected += iteration < 10 || iteration % sample_rate == 0 ? 1 : 0;
    }
    LoggingData data;
    times.fill(data);
    EXPECT_EQ(data.timed_iterations, expected);
  }
}

TEST(StepTimes, OfAStepThatDidNotEndAreForgotten) {
  StepTimes times(100, now);
  times.forward_begins(0);
  the_time += nanoseconds(99);
  times.backward_begins();
  step(times, 0, 1);
  LoggingData data;
  times.fill(data);
  EXPECT_EQ(data.timed_iterations, 1);
  EXPECT_EQ(data.avg_forward_compute_time, nanoseconds(10));
}

TEST(StepTimes, NeedASampleRate) {
  EXPECT_THROW(StepTimes(0), UsageError);
}

}  // namespace
}  // namespace lockstep
