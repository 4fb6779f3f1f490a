#include "harness/worlds/sim/every_schedule.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>

namespace lockstep::sim {
namespace {

// A made-up program makes choices; its schedules, in the order in which they are tried.
using Program = std::function<void(Chooser&)>;

std::vector<std::vector<int>> tried(const Program& program, EverySchedule& every, int most) {
  std::vector<std::vector<int>> all;
  while (!every.is_complete() && every.count() < most) {
    Chooser chooser({.choices = every.next()}, 3);
    program(chooser);
    all.emplace_back();
    for (const auto& choice : chooser.choices()) all.back().push_back(choice.taken);
    every.made(chooser.choices());
  }
  return all;
}

// Three choices, of which the second has a third way if the first was 1.
void three_choices(Chooser& chooser) {
  const int first = chooser.choose({0, 1});
  chooser.choose(first == 1 ? std::vector{0, 1, 2} : std::vector{0, 1});
  chooser.choose({0, 1});
}

void twenty_choices(Chooser& chooser) {
  for (int i = 0; i < 20; ++i) chooser.choose({0, 1, 2});
}

TEST(EverySchedule, IsTriedOnce) {
  EverySchedule every;
  const auto all = tried(three_choices, every, 1000);
  EXPECT_TRUE(every.is_complete());
  EXPECT_EQ(every.count(), 10);
  EXPECT_EQ(std::set(all.begin(), all.end()).size(), 10u);
}

TEST(EverySchedule, WithoutChoicesThereIsOne) {
  EverySchedule every;
  EXPECT_EQ(tried([](Chooser&) {}, every, 1000).size(), 1u);
  EXPECT_TRUE(every.is_complete());
}

TEST(EverySchedule, ThatDiffersEarlierComesEarlier) {
  EverySchedule every;
  const auto all = tried(three_choices, every, 1000);
  const auto last_varied = [](const std::vector<int>& choices) {
    size_t last = 0;
    for (size_t i = 0; i < choices.size(); ++i)
      if (choices[i] != 0) last = i + 1;
    return last;
  };
  for (size_t i = 1; i < all.size(); ++i) EXPECT_LE(last_varied(all[i - 1]), last_varied(all[i]));
}

// A choice between three ranks, made twenty times, has 3^20 schedules. 3^4 = 81 differ in the first
// four.
TEST(EverySchedule, ASearchThatEndsEarlyHasCoveredTheFirstChoices) {
  for (const auto& [most, decisions] : {std::pair{81, 4}, std::pair{82, 4}, std::pair{242, 4},
                                        std::pair{243, 5}, std::pair{1, 0}, std::pair{3, 1}}) {
    EverySchedule every;
    const auto all = tried(twenty_choices, every, most);
    EXPECT_FALSE(every.is_complete());
    EXPECT_EQ(every.count(), most);
    EXPECT_EQ(every.decisions(), decisions) << most;
    std::set<std::vector<int>> beginnings;
    for (const auto& choices : all)
      beginnings.insert({choices.begin(), choices.begin() + decisions});
    int wanted = 1;
    for (int i = 0; i < decisions; ++i) wanted *= 3;
    EXPECT_EQ(static_cast<int>(beginnings.size()), wanted) << most;
  }
}

}  // namespace
}  // namespace lockstep::sim
