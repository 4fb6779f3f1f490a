#include "harness/campaign/slow_watch.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct Plays {
  SlowWatch watch{seconds(5)};
  SlowWatch::Time start{};
  Case c{"toys.a", Json::object()};
  Setting setting;

  Turn turn(int number, int play = 1) const { return {c, setting, number, 9, play}; }
  void began(int number, milliseconds at) { watch.began(turn(number), start + at); }
  void ended(int number, milliseconds at) { watch.ended(turn(number), start + at); }
  std::vector<Slow> slow(milliseconds at) { return watch.slow(start + at); }
};

TEST(SlowWatch, ACaseIsSlowOnceItsTimeIsUp) {
  Plays plays;
  plays.began(3, seconds(1));
  EXPECT_TRUE(plays.slow(seconds(6)).empty());
  const auto slow = plays.slow(seconds(7));
  ASSERT_EQ(slow.size(), 1u);
  EXPECT_EQ(slow[0].scenario, "toys.a");
  EXPECT_EQ(slow[0].number, 3);
  EXPECT_EQ(slow[0].so_far, seconds(6));
  EXPECT_FALSE(slow[0].usual);
}

TEST(SlowWatch, RunningCasesAreKnownSlowOrNot) {
  Plays plays;
  plays.began(3, seconds(1));
  plays.began(4, seconds(2));
  plays.began(5, seconds(2));
  plays.ended(4, seconds(3));
  const auto running = plays.watch.running(plays.start + seconds(4));
  ASSERT_EQ(running.size(), 2u);
  EXPECT_EQ(running[0].number, 3);
  EXPECT_EQ(running[0].so_far, seconds(3));
  EXPECT_EQ(running[1].number, 5);
}

TEST(SlowWatch, ACaseWithALongUsualTimeBecomesSlowLater) {
  Plays plays;
  plays.began(1, seconds(0));
  plays.ended(1, seconds(4));
  plays.began(2, seconds(10));
  EXPECT_TRUE(plays.slow(seconds(19)).empty());
  const auto slow = plays.slow(milliseconds(19001));
  ASSERT_EQ(slow.size(), 1u);
  EXPECT_EQ(slow[0].usual, seconds(4));
}

TEST(SlowWatch, AScenarioIsNamedOnceInEachSetting) {
  Plays plays;
  plays.began(1, seconds(0));
  plays.began(2, seconds(0));
  EXPECT_EQ(plays.slow(seconds(6)).size(), 1u);
  EXPECT_TRUE(plays.slow(seconds(60)).empty());
  plays.setting.subject = "other";
  plays.began(1, seconds(60));
  EXPECT_EQ(plays.slow(seconds(66)).size(), 1u);
}

TEST(SlowWatch, WhatEndedIsNotSlow) {
  Plays plays;
  plays.began(1, seconds(0));
  plays.ended(1, seconds(1));
  EXPECT_TRUE(plays.slow(seconds(60)).empty());
}

TEST(SlowWatch, EachPlayOfACaseIsAPlayOfItsOwn) {
  Plays plays;
  plays.watch.began(plays.turn(1, 1), plays.start);
  plays.watch.ended(plays.turn(1, 1), plays.start + seconds(1));
  plays.watch.began(plays.turn(1, 2), plays.start + seconds(2));
  const auto slow = plays.slow(seconds(9));
  ASSERT_EQ(slow.size(), 1u);
  EXPECT_EQ(slow[0].play, 2);
}

}  // namespace
}  // namespace lockstep
