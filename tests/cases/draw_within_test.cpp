#include "harness/cases/draw.h"
#include "tests/campaign/toys.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace lockstep {
namespace {

using toys::value_of;

TEST(DrawWithin, WhereAFlagBreaksThePreconditionOfADrawAnotherOneIsTaken) {
  auto scenario = toys::holds_unless_one();
  scenario.draws = 60;
  scenario.unmet_precondition = [](const Case& c) {
    return (value_of(c) + world_size(c)) % 2 == 0 ? "" : "the sum must be even";
  };
  const auto meets = [&](const Case& c) { return scenario.unmet_precondition(c).empty(); };
  const auto cases = toys::all_of(draw_cases(scenario, {.seed = 7, .worlds = {2}}));
  EXPECT_EQ(cases.size(), 60u);
  EXPECT_GT(std::count_if(cases.begin(), cases.end(), meets), 50);
  // Where no draw meets it, what is refused says why there is nothing to judge.
  scenario.unmet_precondition = [](const Case&) { return "never"; };
  EXPECT_EQ(draw_cases(scenario, {.seed = 7}).size(), 60u);
}

}  // namespace
}  // namespace lockstep
