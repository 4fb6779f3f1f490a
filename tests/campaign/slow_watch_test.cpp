#include "harness/campaign/slow_watch.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct Runs {
  SlowWatch watch{seconds(5)};
  SlowWatch::Time start{};
  Case c{"toys.a", Json::object()};
  Setting setting;

  Turn turn(int number, int run = 1) const { return {c, setting, number, 9, run}; }
  void began(int number, milliseconds at) { watch.began(turn(number), start + at); }
  void ended(int number, milliseconds at) { watch.ended(turn(number), start + at); }
  std::vector<Slow> slow(milliseconds at) { return watch.slow(start + at); }
};

TEST(SlowWatch, ACaseIsSlowOnceItsTimeIsUp) {
  Runs runs;
  runs.began(3, seconds(1));
  EXPECT_TRUE(runs.slow(seconds(6)).empty());
  const auto slow = runs.slow(seconds(7));
  ASSERT_EQ(slow.size(), 1u);
  EXPECT_EQ(slow[0].scenario, "toys.a");
  EXPECT_EQ(slow[0].number, 3);
  EXPECT_EQ(slow[0].so_far, seconds(6));
  EXPECT_FALSE(slow[0].usual);
}

TEST(SlowWatch, RunningCasesAreKnownSlowOrNot) {
  Runs runs;
  runs.began(3, seconds(1));
  runs.began(4, seconds(2));
  runs.began(5, seconds(2));
  runs.ended(4, seconds(3));
  const auto running = runs.watch.running(runs.start + seconds(4));
  ASSERT_EQ(running.size(), 2u);
  EXPECT_EQ(running[0].number, 3);
  EXPECT_EQ(running[0].so_far, seconds(3));
  EXPECT_EQ(running[1].number, 5);
}

TEST(SlowWatch, ACaseWithALongUsualTimeBecomesSlowLater) {
  Runs runs;
  runs.began(1, seconds(0));
  runs.ended(1, seconds(4));
  runs.began(2, seconds(10));
  EXPECT_TRUE(runs.slow(seconds(19)).empty());
  const auto slow = runs.slow(milliseconds(19001));
  ASSERT_EQ(slow.size(), 1u);
  EXPECT_EQ(slow[0].usual, seconds(4));
}

TEST(SlowWatch, AScenarioIsNamedOnceInEachSetting) {
  Runs runs;
  runs.began(1, seconds(0));
  runs.began(2, seconds(0));
  EXPECT_EQ(runs.slow(seconds(6)).size(), 1u);
  EXPECT_TRUE(runs.slow(seconds(60)).empty());
  runs.setting.subject = "other";
  runs.began(1, seconds(60));
  EXPECT_EQ(runs.slow(seconds(66)).size(), 1u);
}

TEST(SlowWatch, WhatEndedIsNotSlow) {
  Runs runs;
  runs.began(1, seconds(0));
  runs.ended(1, seconds(1));
  EXPECT_TRUE(runs.slow(seconds(60)).empty());
}

TEST(SlowWatch, EachRunOfACaseIsARunOfItsOwn) {
  Runs runs;
  runs.watch.began(runs.turn(1, 1), runs.start);
  runs.watch.ended(runs.turn(1, 1), runs.start + seconds(1));
  runs.watch.began(runs.turn(1, 2), runs.start + seconds(2));
  const auto slow = runs.slow(seconds(9));
  ASSERT_EQ(slow.size(), 1u);
  EXPECT_EQ(slow[0].run, 2);
}

}  // namespace
}  // namespace lockstep
