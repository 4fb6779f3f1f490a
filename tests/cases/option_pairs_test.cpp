#include "harness/cases/option_pairs.h"

#include "harness/cases/draw.h"
#include "harness/cases/generators.h"
#include "tests/campaign/toys.h"

#include <gtest/gtest.h>

#include <array>

namespace lockstep {
namespace {

enum class Mode { plain, fast, slow };

struct Optional {
  WorldSpec world{.size = 2};
  bool first = false, second = false, third = false, fourth = false;
  Mode mode = Mode::plain;
  std::vector<int> sizes;
  int64_t length = 1;
  static constexpr auto fields() {
    return std::tuple{
        field("world", &Optional::world),   field("first", &Optional::first),
        field("second", &Optional::second), field("third", &Optional::third),
        field("fourth", &Optional::fourth), field("mode", &Optional::mode),
        field("sizes", &Optional::sizes),   field("length", &Optional::length, between(1, 1000))};
  }
};

// Each option is off in one of `off_in` draws.
rc::Gen<Optional> options_off_in(int64_t off_in) {
  const auto is_on = [off_in] {
    return gen::map(rc::gen::resize(100, rc::gen::inRange<int64_t>(0, off_in)),
                    [](int64_t drawn) { return drawn > 0; });
  };
  return gen::apply(
      [](bool first, bool second, bool third, bool fourth, bool mode, bool sizes, int64_t length) {
        constexpr std::array kModes{Mode::fast, Mode::slow};
        return Optional{.first = first,
                        .second = second,
                        .third = third,
                        .fourth = fourth,
                        .mode = mode ? kModes[static_cast<size_t>(length % 2)] : Mode::plain,
                        .sizes = sizes ? std::vector{1, 2} : std::vector<int>{},
                        .length = length};
      },
      is_on(), is_on(), is_on(), is_on(), is_on(), is_on(),
      rc::gen::resize(100, rc::gen::inRange<int64_t>(1, 1000)));
}

// The second needs the first, and the third excludes it.
rc::Gen<Optional> tied() {
  return gen::map(options_off_in(2), [](Optional c) {
    c.first = c.first || c.second;
    c.third = c.third && !c.first;
    return c;
  });
}

Scenario scenario_of(rc::Gen<Optional> cases, int draws) {
  return scenario<Optional>({.name = "toys.options",
                             .draws = draws,
                             .cases = std::move(cases),
                             .program = [](const Optional&, RankContext&) {}});
}

Case case_of(Optional c) {
  return {"toys.options", to_json(c)};
}

TEST(OptionPairs, APairIsAValueOfOneOptionAndAValueOfAnotherInOneCase) {
  OptionPairs pairs(scenario_of(options_off_in(2), 1));
  const auto plain = pairs.values_of(case_of({}));
  EXPECT_EQ(pairs.gain(plain), 15) << "six options, fifteen pairs of them";
  pairs.cover(plain);
  EXPECT_EQ(pairs.covered(), 15);
  EXPECT_EQ(pairs.all(), 15) << "no option has a second value so far";
  EXPECT_EQ(pairs.gain(pairs.values_of(case_of({.length = 9}))), 0) << "a length is no option";
  const auto other = pairs.values_of(case_of({.second = true}));
  EXPECT_EQ(pairs.gain(other), 5) << "with each of the others";
  EXPECT_EQ(pairs.all(), 20);
  EXPECT_EQ(pairs.covered(), 15) << "until it is covered";
}

TEST(OptionPairs, AListIsAnOptionThatIsOnWhereItIsNotEmpty) {
  OptionPairs pairs(scenario_of(options_off_in(2), 1));
  pairs.cover(pairs.values_of(case_of({.sizes = {3}})));
  EXPECT_EQ(pairs.gain(pairs.values_of(case_of({.sizes = {1, 2}}))), 0);
  EXPECT_EQ(pairs.gain(pairs.values_of(case_of({}))), 5);
}

TEST(OptionPairs, OnIsWhatTheSmallestCaseDoesNotHave) {
  OptionPairs pairs(scenario_of(options_off_in(2), 1));
  EXPECT_EQ(pairs.values_of(case_of({})).on, 0u);
  EXPECT_EQ(pairs.values_of(case_of({.second = true, .mode = Mode::slow})).on, 0b010010u);
}

TEST(Swarm, APairCountsAsCoveredIfACaseOfTheListHasIt) {
  const auto scenario = scenario_of(options_off_in(2), 6);
  const auto list = draw_cases(scenario, {.seed = 7});
  OptionPairs pairs(scenario);
  for (const auto& c : toys::all_of(list)) pairs.cover(pairs.values_of(c));
  EXPECT_EQ(list.pairs().covered, pairs.covered());
  EXPECT_LT(list.pairs().covered, list.pairs().all);
}

// Fifteen pairs of options: ten of two truths with four values, five with a mode, which has three.
TEST(Swarm, TwentyFiveCasesCoverAllPairsOfSixOptions) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const auto list = draw_cases(scenario_of(options_off_in(2), 25), {.seed = seed});
    EXPECT_EQ(list.pairs(), (PairCoverage{70, 70})) << seed;
  }
}

// A check by hand: 75 of 2,000 draws have at most two of six options that are off one time in four,
// and 1,068 have five and more.
TEST(Swarm, OptionsThatMostDrawsHaveAreAbsentTogetherFromSomeCases) {
  const auto on_in = [](const Case& c) {
    int on = 0;
    for (const char* option : {"first", "second", "third", "fourth"})
      on += c.value[option].get<bool>();
    return on + (c.value["mode"] != "plain") + !c.value["sizes"].empty();
  };
  std::array<int, 7> cases{};
  for (uint64_t seed = 0; seed < 10; ++seed)
    for (const auto& c :
         toys::all_of(draw_cases(scenario_of(options_off_in(4), 200), {.seed = seed})))
      ++cases[static_cast<size_t>(on_in(c))];
  EXPECT_GE(cases[0] + cases[1] + cases[2], 150);
  EXPECT_GE(cases[5] + cases[6], 600) << "every second case is drawn without absent options";
}

TEST(Swarm, NoCaseBreaksARuleOfTheScenariosDraws) {
  for (const auto& c : toys::all_of(draw_cases(scenario_of(tied(), 200), {.seed = 7}))) {
    EXPECT_TRUE(c.value["first"] || !c.value["second"]);
    EXPECT_FALSE(c.value["third"] && c.value["first"]);
  }
}

TEST(Swarm, OneSeedGivesOneListHoweverLongAndWhateverIsFixed) {
  const auto scenario = scenario_of(options_off_in(2), 30);
  const auto plain = toys::all_of(draw_cases(scenario, {.seed = 7}));
  GrowingCases growing(scenario, {.seed = 7});
  growing.grow();
  const auto grown = toys::all_of(growing.list());
  ASSERT_EQ(grown.size(), 60u);
  EXPECT_TRUE(std::equal(plain.begin(), plain.end(), grown.begin()));
  for (const auto& c : toys::all_of(draw_cases(scenario, {.seed = 7, .set = {{"first", "true"}}})))
    EXPECT_TRUE(c.value["first"]);
}

TEST(Swarm, AFewOfAListCountNoPairs) {
  const auto list = draw_cases(scenario_of(options_off_in(2), 25), {.seed = 7});
  EXPECT_EQ(list.a_few(4).pairs(), PairCoverage());
}

}  // namespace
}  // namespace lockstep
