#include "harness/cases/shown_fields.h"

#include "tests/campaign/toys.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

using toys::holds_unless_one;

TEST(ShownFields, WhatConcernsSimulatedWorldsIsDisplayedWhereItSaysSomething) {
  Case c = holds_unless_one().smallest();
  EXPECT_EQ(displayed_value(c).at("world"), (Json{{"injections", Json::array()}, {"size", 2}}));
  c.value["world"]["reduction"] = "ring";
  EXPECT_EQ(displayed_value(c).at("world").at("reduction"), "ring");
}

TEST(ShownFields, WhatDiffersFromTheDefaultIsAllThatIsLeft) {
  const auto defaults = Json::parse(R"({"a": 1, "b": {"c": 2, "d": 3}, "e": [1]})");
  const auto value = Json::parse(R"({"a": 1, "b": {"c": 2, "d": 4}, "e": []})");
  EXPECT_EQ(fields_that_differ(value, defaults).dump(), R"({"b":{"d":4},"e":[]})");
  EXPECT_EQ(fields_that_differ(defaults, defaults).dump(), "{}");
}

TEST(ShownFields, OfStructsInListsTheFirstFieldAndWhatDiffersIsLeft) {
  const auto scenario = holds_unless_one();
  const auto value = scenario
                         .parse(Json::parse(R"({"world": {"size": 2, "injections": [
                             {}, {"kind": "kill", "rank": 1, "at": {"step": 3}}]}})"))
                         .value;
  const auto shown = unlike_default(scenario, value);
  const auto defaults = to_json(Injection{});
  EXPECT_EQ(
      shown.at("world").at("injections"),
      (Json{{{"kind", defaults["kind"]}}, {{"kind", "kill"}, {"rank", 1}, {"at", {{"step", 3}}}}}));
  EXPECT_EQ(scenario.parse(shown).value, value) << "it is a case file still";
}

}  // namespace
}  // namespace lockstep
