#include "harness/worlds/calibration.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

// The history of two ranks where an operation costs 700 ns and 250 ps an element, and a message 40
// us and a nanosecond a byte: two messages of half the bytes.
History made_up(int64_t noise_ns) {
  std::vector<int64_t> computing, communicating;
  for (const int64_t elements : {1, 1 << 10, 1 << 14, 1 << 17, 1 << 20}) {
    computing.push_back(700 + elements / 4);
    communicating.push_back(2 * (40'000 + 2 * elements) + noise_ns);
  }
  RankHistory rank;
  rank.events.push_back({{0, "computing"}, Observation{"ns", int64_values(computing)}});
  rank.events.push_back({{0, "communicating"}, Observation{"ns", int64_values(communicating)}});
  return History({rank, rank});
}

TEST(Calibration, FindsThePricesThatMadeTheTimes) {
  const auto found = calibrated(made_up(0));
  EXPECT_NEAR(static_cast<double>(found.timing.operation_ns), 700, 2);
  EXPECT_NEAR(static_cast<double>(found.timing.picoseconds_per_element), 250, 1);
  EXPECT_NEAR(static_cast<double>(found.timing.latency_ns), 40'000, 10);
  EXPECT_NEAR(static_cast<double>(found.timing.megabytes_per_second), 1000, 2);
  EXPECT_LT(found.communicating_off_by, 0.001);
}

TEST(Calibration, SaysHowFarItIsOff) {
  auto history = made_up(0);
  auto ranks = history.ranks();
  for (auto& rank : ranks)
    rank.events[1].what =
        Observation{"ns", int64_values({80'000, 400'000, 100'000, 600'000, 4'000'000})};
  EXPECT_GT(calibrated(History(ranks)).communicating_off_by, 0.2);
}

TEST(Calibration, TheSlowestRankCounts) {
  auto ranks = made_up(0).ranks();
  ranks.push_back(made_up(0).ranks()[0]);
  ranks[1].events[0].what = Observation{
      "ns", int64_values({1400, 1400 + 512, 1400 + 8192, 1400 + (1 << 16), 1400 + (1 << 19)})};
  EXPECT_NEAR(static_cast<double>(calibrated(History(ranks)).timing.operation_ns), 1400, 3);
}

}  // namespace
}  // namespace lockstep
