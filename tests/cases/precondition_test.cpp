#include "harness/cases/scenario.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

struct Limits {
  int least = 0, most = 9;
  auto operator<=>(const Limits&) const = default;
  static constexpr auto fields() {
    return std::tuple{field("least", &Limits::least), field("most", &Limits::most)};
  }
  std::string unmet_precondition() const { return least <= most ? "" : "least is above most"; }
};

struct OfStructs {
  WorldSpec world{.size = 2};
  Limits one;
  std::vector<Limits> several;
  auto operator<=>(const OfStructs&) const = default;
  static constexpr auto fields() {
    return std::tuple{field("world", &OfStructs::world), field("one", &OfStructs::one),
                      field("several", &OfStructs::several)};
  }
};

std::string why_no_three(const OfStructs& c) {
  return c.world.size == 3 ? "" : "there must be three ranks";
}

Scenario scenario_of_structs() {
  return scenario<OfStructs>({.name = "toy.x",
                              .cases = rc::gen::just(OfStructs{}),
                              .precondition = why_no_three,
                              .program = nullptr,
                              .checks = {}});
}

TEST(Precondition, OfAStructIsAskedWhereverItIs) {
  const auto unmet = [](const char* value) {
    return scenario_of_structs().unmet_precondition(
        scenario_of_structs().parse(Json::parse(value)));
  };
  EXPECT_EQ(unmet(R"({"world": {"size": 3}})"), "");
  EXPECT_EQ(unmet(R"({"world": {"size": 2}})"), "there must be three ranks");
  EXPECT_EQ(unmet(R"({"world": {"size": 3}, "one": {"least": 10}})"), "least is above most");
  EXPECT_EQ(unmet(R"({"world": {"size": 3}, "several": [{}, {"least": 10}]})"),
            "least is above most");
}

// Also where it hangs, which is judged before any check.
TEST(Precondition, ACaseThatDoesNotMeetItIsRefusedHoweverItEnded) {
  const auto stuck_in = [](int size) {
    RankHistory rank;
    rank.events.push_back({{0, "p"}, Observation{"x", int64_values({1})}});
    rank.ending = {Ending::Kind::stuck, ""};
    const auto c = scenario_of_structs().parse(Json{{"world", {{"size", size}}}});
    return judge(scenario_of_structs(), c, History(std::vector(static_cast<size_t>(size), rank)));
  };
  EXPECT_EQ(stuck_in(2).kind, Verdict::Kind::refused);
  EXPECT_EQ(stuck_in(2).findings.at(0).diagnosis, "there must be three ranks");
  EXPECT_EQ(refusal_of(scenario_of_structs(), scenario_of_structs().smallest()), stuck_in(2));
  EXPECT_EQ(stuck_in(3).kind, Verdict::Kind::hang);
}

TEST(Precondition, TheKindOfAnInjectionGetsNoSmaller) {
  const auto c = scenario_of_structs().parse(
      Json::parse(R"({"world": {"injections": [{"kind": "throw", "rank": 1, "amount": 3}]}})"));
  const auto smaller = scenario_of_structs().smaller(c);
  EXPECT_GE(smaller.size(), 3u);
  for (const auto& each : smaller)
    for (const auto& injection : world_of(each).injections)
      EXPECT_EQ(injection.kind, InjectionKind::throw_);
}

}  // namespace
}  // namespace lockstep
