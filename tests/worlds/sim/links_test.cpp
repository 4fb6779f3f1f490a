#include "harness/worlds/sim/links.h"

#include <gtest/gtest.h>

namespace lockstep::sim {
namespace {

using namespace std::chrono_literals;

// 1 microsecond a message, and 1 nanosecond a byte.
const Timing kTiming{.latency_ns = 1000, .megabytes_per_second = 1000};

TEST(Links, WithoutATimingNothingCosts) {
  EXPECT_EQ(Links({}).cost("allreduce", 1 << 20, {0, 1, 2}), 0ns);
  EXPECT_EQ(Links({}).computing(1, 5ns), 5ns);
}

// By hand: 2 (W - 1) messages of a W-th of the bytes.
TEST(Links, AnAllReduceGoesRoundARingTwice) {
  const Links links(kTiming);
  EXPECT_EQ(links.cost("allreduce", 4000, {0, 1, 2, 3}), 6 * (1000ns + 1000ns));
  EXPECT_EQ(links.cost("allreduce", 4001, {0, 1, 2, 3}), 6 * (1000ns + 1001ns)) << "rounded up";
  EXPECT_EQ(links.cost("allreduce_coalesced", 4000, {0, 1}), 2 * (1000ns + 2000ns));
}

TEST(Links, OtherCollectivesGoRoundItOnce) {
  const Links links(kTiming);
  EXPECT_EQ(links.cost("broadcast", 500, {0, 1, 2}), 2 * 1500ns);
  EXPECT_EQ(links.cost("allgather", 500, {0, 1, 2}), 2 * 1500ns);
  EXPECT_EQ(links.cost("_reduce_scatter_base", 900, {0, 1, 2}), 2 * 1300ns);
  EXPECT_EQ(links.cost("barrier", 0, {0, 1, 2}), 4 * 1000ns);
  EXPECT_EQ(links.cost("send", 500, {0, 2}), 1500ns);
}

TEST(Links, AloneThereIsNobodyToSendTo) {
  EXPECT_EQ(Links(kTiming).cost("allreduce", 500, {2}), 0ns);
}

TEST(Links, TheSlowestLinkOfTheRingDecides) {
  auto timing = kTiming;
  timing.slow_links = {{.from = 2, .to = 1, .factor = 10}};
  const Links links(timing);
  EXPECT_EQ(links.cost("broadcast", 0, {0, 1, 2}), 2 * 10'000ns);
  EXPECT_EQ(links.cost("broadcast", 0, {0, 2, 3}), 2 * 1000ns) << "the pair is not in this ring";
}

TEST(Links, SlowRanksComputeLonger) {
  const Links links({.slow_ranks = {1, 3}});
  EXPECT_EQ(links.computing(0, 10ns), 10ns);
  EXPECT_EQ(links.computing(3, 10ns), 30ns) << "read cyclically";
}

}  // namespace
}  // namespace lockstep::sim
