#include "harness/base/fields.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

enum class Word { b, a, c };

struct Costly {
  Word seed = Word::a;
  struct World {
    int delay = 0, size = 1;
    auto operator<=>(const World&) const = default;
    static constexpr auto fields() {
      return std::tuple{field("delay", &World::delay, {}, Cost::schedule),
                        field("size", &World::size, {}, Cost::world)};
    }
  } world;
  bool flag = false;
  auto operator<=>(const Costly&) const = default;
  static constexpr auto fields() {
    return std::tuple{field("seed", &Costly::seed, {}, Cost::numbers),
                      field("world", &Costly::world), field("flag", &Costly::flag)};
  }
};

TEST(FieldCosts, StepsComeInOrderOfTheirCostAndThenOfTheList) {
  std::vector<std::string> steps;
  for (const auto& step : smaller_by_field(Costly{Word::c, {1, 2}, true}))
    steps.push_back(step.dump());
  EXPECT_EQ(steps,
            (std::vector<std::string>{R"({"seed":"c","world":{"delay":1,"size":1},"flag":true})",
                                      R"({"seed":"c","world":{"delay":1,"size":2},"flag":false})",
                                      R"({"seed":"c","world":{"delay":0,"size":2},"flag":true})",
                                      R"({"seed":"a","world":{"delay":1,"size":2},"flag":true})",
                                      R"({"seed":"b","world":{"delay":1,"size":2},"flag":true})"}));
}

TEST(FieldCosts, LeavesAreTheFieldsThatAreNoStructs) {
  std::vector<std::string> leaves;
  for (const auto& leaf : leaves_of<Costly>())
    leaves.push_back(leaf.path + " " + std::to_string(static_cast<int>(leaf.type)) + " " +
                     std::to_string(static_cast<int>(leaf.cost)));
  EXPECT_EQ(leaves, (std::vector<std::string>{"seed 4 4", "world.delay 0 3", "world.size 0 0",
                                              "flag 3 1"}));
}

}  // namespace
}  // namespace lockstep
