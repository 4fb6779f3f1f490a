#include "harness/worlds/sim/chooser.h"

#include <gtest/gtest.h>

#include <set>

namespace lockstep::sim {
namespace {

std::vector<int> chosen(Chooser chooser, const std::vector<int>& runnable, int times) {
  std::vector<int> out;
  for (int i = 0; i < times; ++i) out.push_back(chooser.choose(runnable));
  return out;
}

TEST(Chooser, AListIsReadInOrderModuloWhoCanRunAndBehindItsEndTheFirstRuns) {
  const Schedule schedule{.choices = {2, 4, 1}};
  EXPECT_EQ(chosen(Chooser(schedule, 8), {3, 5, 7}, 5), (std::vector<int>{7, 5, 5, 3, 3}));
}

TEST(Chooser, WhereOneAloneCanRunNoChoiceIsMade) {
  Chooser chooser({.choices = {1}}, 2);
  EXPECT_EQ(chooser.choose({1}), 1);
  EXPECT_TRUE(chooser.choices().empty());
  EXPECT_EQ(chooser.choose({0, 1}), 1);
  EXPECT_EQ(chooser.choices(), (std::vector<Choice>{{1, 2}}));
}

TEST(Chooser, UniformChoicesComeFromTheSeedAndReachEverybody) {
  const auto with = [](uint64_t seed) {
    return chosen(Chooser({.policy = SchedulePolicy::uniform, .seed = seed}, 3), {0, 1, 2}, 100);
  };
  EXPECT_EQ(with(1), with(1));
  EXPECT_NE(with(1), with(2));
  const auto seen = with(3);
  EXPECT_EQ(std::set<int>(seen.begin(), seen.end()).size(), 3u);
}

TEST(Chooser, ByPriorityTheSameRankRunsUntilAChange) {
  const auto still =
      chosen(Chooser({.policy = SchedulePolicy::priority, .seed = 4}, 4), {0, 1, 2, 3}, 50);
  EXPECT_EQ(std::set<int>(still.begin(), still.end()).size(), 1u);
  const auto changing = chosen(
      Chooser({.policy = SchedulePolicy::priority, .changes = 2, .seed = 4}, 4), {0, 1, 2, 3}, 200);
  EXPECT_EQ(std::set<int>(changing.begin(), changing.end()).size(), 3u) << "two were made the last";
  std::set<int> firsts;
  for (uint64_t seed = 0; seed < 20; ++seed)
    firsts.insert(
        Chooser({.policy = SchedulePolicy::priority, .seed = seed}, 4).choose({0, 1, 2, 3}));
  EXPECT_EQ(firsts.size(), 4u);
}

}  // namespace
}  // namespace lockstep::sim
