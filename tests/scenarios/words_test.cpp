// Each case of the catalogue says in plain words what its ranks run.
#include "harness/base/characters.h"
#include "scenarios/catalogue.h"
#include "scenarios/standalone/standalone.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

constexpr size_t kColumnsMost = 260;  // a few lines of a narrow terminal

void expect_words(const Scenario& scenario, const Case& c) {
  const auto words = scenarios::standalone::in_words(c);
  EXPECT_GT(words.size(), 10u) << scenario.name;
  EXPECT_LE(words.size(), kColumnsMost) << scenario.name << ": " << words;
  EXPECT_TRUE(is_one_line(words)) << scenario.name << ": " << words;
}

TEST(Words, EveryCaseSaysWhatItsRanksRun) {
  for (const auto& scenario : catalogue()) {
    expect_words(scenario, scenario.smallest());
    for (uint64_t seed = 0; seed < 40; ++seed) expect_words(scenario, scenario.draw(seed, 60));
    if (scenario.every)
      for (const auto& c : scenario.every()) expect_words(scenario, c);
  }
}

TEST(Words, AJoinSaysWhoseInputsEndFirst) {
  for (const auto& scenario : catalogue()) {
    if (scenario.name != "join.uneven_inputs_are_reported" &&
        scenario.name != "join.joinables_are_shadowed")
      continue;
    auto c = scenario.smallest();
    c.value["world"]["size"] = 3;
    c.value["inputs"] = {1, 3};
    const auto words = scenarios::standalone::in_words(c);
    EXPECT_NE(words.find("on [1, 3, 1] inputs, of which those of ranks 0,2 end first;"),
              std::string::npos)
        << words;
    c.value["inputs"] = {2};
    EXPECT_EQ(scenarios::standalone::in_words(c).find("first"), std::string::npos);
  }
}

TEST(Words, AScenarioOfTheUsersHasNone) {
  EXPECT_EQ(scenarios::standalone::in_words({"toys.some", Json::object()}), "");
}

}  // namespace
}  // namespace lockstep
