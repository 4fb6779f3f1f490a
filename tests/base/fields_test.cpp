#include "harness/base/fields.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

struct Inner {
  int width = 1;
  bool bias = false;
  auto operator<=>(const Inner&) const = default;
  static constexpr auto fields() {
    return std::tuple{field("width", &Inner::width, between(1, 9)), field("bias", &Inner::bias)};
  }
};
enum class Mode { pad, drop };

struct Outer {
  std::vector<Inner> layers;
  int64_t length = 1;
  Mode mode = Mode::pad;
  double rate = 1;
  uint64_t seed = 0;
  std::vector<int> sizes;
  auto operator<=>(const Outer&) const = default;
  static constexpr auto fields() {
    return std::tuple{
        field("layers", &Outer::layers), field("length", &Outer::length, at_least(1)),
        field("mode", &Outer::mode),     field("rate", &Outer::rate),
        field("seed", &Outer::seed),     field("sizes", &Outer::sizes, at_most(2, between(0, 64)))};
  }
};

std::string refusal(const std::string& json) {
  try {
    from_json<Outer>(Json::parse(json), "case");
  } catch (const FieldError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Fields, AValueSurvivesTheWayToJsonAndBack) {
  const Outer value{{{3, true}, {9, false}}, 77, Mode::drop, 0.25, ~uint64_t{0}};
  EXPECT_EQ(from_json<Outer>(to_json(value), "case"), value);
  EXPECT_EQ(from_json<Outer>(Json::parse(to_json(value).dump()), "case"), value);
}

TEST(Fields, JsonKeepsTheOrderOfTheList) {
  EXPECT_EQ(to_json(Outer{}).dump(),
            R"({"layers":[],"length":1,"mode":"pad","rate":1.0,"seed":0,"sizes":[]})");
}

TEST(Fields, WhatIsLeftOutKeepsItsDefault) {
  EXPECT_EQ(from_json<Outer>(Json::parse(R"({"length":5})"), "case").length, 5);
  EXPECT_EQ(from_json<Outer>(Json::parse(R"({"length":5})"), "case").mode, Mode::pad);
}

TEST(Fields, EveryRefusalNamesItsPathAndWhatIsAllowed) {
  EXPECT_EQ(refusal(R"({"lenght":5})"),
            "case: unknown field 'lenght' (did you mean 'length'?); known: layers, length, mode, "
            "rate, seed, sizes");
  EXPECT_EQ(refusal(R"({"layers":[{"width":1},{"width":0}]})"),
            "case.layers[1].width: 0 is too small; the least is 1");
  EXPECT_EQ(refusal(R"({"layers":[{"width":10}]})"),
            "case.layers[0].width: 10 is too large; the most is 9");
  EXPECT_EQ(refusal(R"({"length":"5"})"), "case.length: expected a whole number, found \"5\"");
  EXPECT_EQ(refusal(R"({"length":1.5})"), "case.length: expected a whole number, found 1.5");
  EXPECT_EQ(refusal(R"({"layers":{}})"), "case.layers: expected a list, found {}");
  EXPECT_EQ(refusal(R"({"layers":[{"bias":1}]})"),
            "case.layers[0].bias: expected true or false, found 1");
  EXPECT_EQ(refusal(R"({"mode":"dorp"})"),
            "case.mode: unknown value 'dorp' (did you mean 'drop'?); known: pad, drop");
  EXPECT_EQ(refusal(R"({"seed":-1})"),
            "case.seed: expected a whole number of at least 0, found -1");
  EXPECT_EQ(refusal(R"({"length":9223372036854775808})"),
            "case.length: expected a number below 2^63, found 9223372036854775808");
  EXPECT_EQ(refusal(R"({"sizes":[1,2,3]})"),
            "case.sizes: a list of 3 is too long; the longest has 2");
  EXPECT_EQ(refusal(R"({"sizes":[1,65]})"), "case.sizes[1]: 65 is too large; the most is 64");
  EXPECT_EQ(refusal(R"({"sizes":[1,2]})"), "accepted");
  EXPECT_EQ(refusal("[]"),
            "case: expected an object with layers, length, mode, rate, seed, sizes, found []");
}

TEST(Fields, ADefaultValueHasNoSmallerOne) {
  EXPECT_TRUE(smaller_by_field(Outer{}).empty());
}

std::vector<Outer> steps_of(const Outer& value) {
  std::vector<Outer> steps;
  for (const auto& step : smaller_by_field(value)) steps.push_back(from_json<Outer>(step, "case"));
  return steps;
}

// Descends by the first smaller value that still fails.
Outer shrunk(Outer value, bool (*fails)(const Outer&)) {
  for (bool moved = true; moved;) {
    moved = false;
    for (const auto& smaller : steps_of(value))
      if (fails(smaller)) {
        value = smaller;
        moved = true;
        break;
      }
  }
  return value;
}

TEST(Fields, ShrinkingReachesTheSmallestValueThatFails) {
  const Outer start{{{7, true}, {5, true}, {3, false}}, 900, Mode::drop, 0.5, 99};
  const auto smallest = shrunk(start, [](const Outer& value) {
    return value.length >= 13 && !value.layers.empty() && value.layers.back().width >= 2;
  });
  EXPECT_EQ(smallest, (Outer{{{2, false}}, 13, Mode::pad, 1, 0}));
}

TEST(Fields, NoShrinkLeavesTheLimits) {
  const auto steps = smaller_by_field(Outer{{{4, true}}, 8, Mode::drop, 2, 3});
  for (const auto& step : steps) EXPECT_NO_THROW(from_json<Outer>(step, "case"));
  EXPECT_GT(steps.size(), 5u);
}

TEST(Fields, ANumberCloseToItsDefaultHasEveryValueBetweenAsAStep) {
  std::vector<int64_t> lengths;
  for (const auto& step : steps_of({.length = 5})) lengths.push_back(step.length);
  EXPECT_EQ(lengths, (std::vector<int64_t>{1, 2, 3, 4}));
  lengths.clear();
  for (const auto& step : steps_of({.length = 101})) lengths.push_back(step.length);
  EXPECT_EQ(lengths, (std::vector<int64_t>{1, 51, 76, 89, 95, 98, 100}));
}

TEST(Fields, ASeedHasTheFirstFewValuesAsSteps) {
  std::vector<uint64_t> seeds;
  for (const auto& step : steps_of({.seed = 99})) seeds.push_back(step.seed);
  EXPECT_EQ(seeds, (std::vector<uint64_t>{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST(Fields, ALeafHasTheLimitsOfItsField) {
  EXPECT_EQ(leaves_of<Outer>()[1].allowed.least, 1);
}

TEST(Fields, AValueIsSetByItsPath) {
  const auto json = to_json(Outer{{{4, true}}, 8, Mode::pad, 2, 3});
  EXPECT_EQ(with_value(json, "layers[0].width", "6")["layers"][0]["width"], 6);
  EXPECT_EQ(with_value(json, "mode", "drop")["mode"], "drop");
  EXPECT_EQ(with_value(json, "layers", R"([{"width":2}])")["layers"].size(), 1u);
}

TEST(Fields, ANameThatIsElsewhereIsRefusedWithItsPath) {
  const auto json = Json::parse(R"({"seed":1,"world":{"size":2,"schedule":{"seed":3}}})");
  const auto refusal = [&](const std::string& path) {
    try {
      with_value(json, path, "1");
    } catch (const UnknownField& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_EQ(refusal("size"), "case: unknown field 'size' (did you mean 'world.size'?)");
  EXPECT_EQ(refusal("wrold.size"), "case: unknown field 'wrold.size' (did you mean 'world.size'?)");
  EXPECT_EQ(refusal("world.seed"),
            "case: unknown field 'world.seed' (did you mean 'seed' or 'world.schedule.seed'?)");
  EXPECT_EQ(refusal("world.siez"),
            "case.world: unknown field 'siez' (did you mean 'size'?); known: size, schedule");
}

TEST(Fields, APathThatLeadsNowhereIsRefused) {
  const auto json = to_json(Outer{{{4, true}}, 8, Mode::pad, 2, 3});
  for (const auto* path :
       {"lenght", "layers[1].width", "layers[0].widht", "length.x", "", "layers[x]"})
    EXPECT_THROW(with_value(json, path, "1"), FieldError) << path;
}

// As messages between processes have them.
enum class Colour { red, green };
struct Part {
  std::string name;
  static constexpr auto fields() { return std::tuple{field("name", &Part::name, line_up_to(4))}; }
};
struct Said {
  Colour colour = Colour::red;
  std::chrono::milliseconds limit{};
  std::optional<int> rank;
  std::map<std::string, Part> parts;
  std::map<std::string, std::string> hashes;
  std::vector<uint64_t> addresses;
  static constexpr auto fields() {
    return std::tuple{field("colour", &Said::colour),
                      field("limit", &Said::limit, between(1, 1000)),
                      field("rank", &Said::rank, between(0, 3)),
                      field("parts", &Said::parts, at_most(2, {})),
                      field("hashes", &Said::hashes, text_up_to(4)),
                      field("addresses", &Said::addresses)};
  }
};

Said whole_message() {
  return {.colour = Colour::green,
          .limit = std::chrono::seconds(1),
          .rank = 2,
          .parts = {{"a", {"x"}}, {"b", {"y"}}},
          .hashes = {{"c", "1"}},
          .addresses = {std::numeric_limits<uint64_t>::max()}};
}

TEST(Fields, AMessageSurvivesTheWayToJsonAndBack) {
  const Json json = to_json(whole_message());
  EXPECT_EQ(json.dump(), R"({"colour":"green","limit":1000,"rank":2,"parts":{"a":{"name":"x"},)"
                         R"("b":{"name":"y"}},"hashes":{"c":"1"},)"
                         R"("addresses":[18446744073709551615]})");
  EXPECT_EQ(to_json(from_json<Said>(json, "message", Reading::whole)), json);
  auto without = whole_message();
  without.rank.reset();
  const Json shorter = to_json(without);
  EXPECT_FALSE(shorter.contains("rank"));
  EXPECT_FALSE(from_json<Said>(shorter, "message", Reading::whole).rank);
}

TEST(Fields, EveryRefusalOfAMessageNamesItsPathAndWhatIsAllowed) {
  const auto with = [](const char* name, const Json& value) {
    Json json = to_json(whole_message());
    json[name] = value;
    try {
      from_json<Said>(json, "message", Reading::whole);
    } catch (const FieldError& error) {
      return std::string(error.what());
    }
    return std::string("not refused");
  };
  EXPECT_EQ(with("colour", 1), "message.colour: expected a string, found 1");
  EXPECT_EQ(with("colour", "rad"),
            "message.colour: unknown value 'rad' (did you mean 'red'?); known: red, green");
  EXPECT_EQ(with("limit", 0), "message.limit: 0 is too small; the least is 1");
  EXPECT_EQ(with("limit", uint64_t{1} << 63),
            "message.limit: expected a number below 2^63, found 9223372036854775808");
  EXPECT_EQ(with("rank", nullptr), "message.rank: expected a whole number, found null");
  EXPECT_EQ(with("rank", 4), "message.rank: 4 is too large; the most is 3");
  EXPECT_EQ(with("parts", Json::array()), "message.parts: expected an object, found []");
  EXPECT_EQ(with("parts", {{"a", {{"name", "12345"}}}}),
            "message.parts.a.name: a text of 5 bytes is too long; the longest has 4");
  EXPECT_EQ(with("parts", {{"a", {{"name", "\n"}}}}),
            "message.parts.a.name: expected one line without control characters, found \"\\n\"");
  EXPECT_EQ(with("parts", {{"a", Json::object()}}), "message.parts.a: has no 'name'");
  const Json x{{"name", "x"}};
  EXPECT_EQ(with("parts", {{"a", x}, {"b", x}, {"c", x}}),
            "message.parts: a list of 3 is too long; the longest has 2");
  EXPECT_EQ(with("parts", {{"a\x1b", x}}),
            "message.parts: \"a\\u001b\" is no name: one line of 1 to 200 bytes");
  EXPECT_EQ(with("hashes", {{"c", 1}}), "message.hashes.c: expected a string, found 1");
  EXPECT_EQ(with("addresses", {-1}),
            "message.addresses[0]: expected a whole number of at least 0, found -1");
}

TEST(Fields, AMessageWithoutAFieldIsRefusedWhereACaseKeepsItsDefault) {
  Json json = to_json(whole_message());
  json.erase("colour");
  EXPECT_EQ(from_json<Said>(json, "message").colour, Colour::red);
  EXPECT_THROW(from_json<Said>(json, "message", Reading::whole), FieldError);
}

TEST(Fields, AnUnknownFieldIsQuotedInOneLine) {
  try {
    fields::refuse_unknown("case", "a\nb", {"c"});
    FAIL() << "it returned";
  } catch (const UnknownField& error) {
    EXPECT_EQ(std::string(error.what()), "case: unknown field 'a\\x0ab'; known: c");
  }
}

}  // namespace
}  // namespace lockstep
