#include "harness/base/parse_json.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

std::string refusal_to_parse(const std::string& text) {
  try {
    parse_json(text, "x.json");
  } catch (const FieldError& error) {
    return error.what();
  }
  return "accepted";
}

std::string nested(size_t levels, const std::string& open, const std::string& close) {
  std::string text;
  for (size_t level = 0; level < levels; ++level) text += open;
  text += "1";
  for (size_t level = 0; level < levels; ++level) text += close;
  return text;
}

TEST(ParseJson, GivesWhatTheLibraryGives) {
  for (const char* text :
       {"null", "true", "-3", "3", "18446744073709551615", "0.5", "\"a\\n\\u00e4\"", "[]", "{}",
        R"([1, [2, {"b": 1, "a": [null, {}]}], "x"])", R"({"b": {"z": 1, "a": {}}, "a": [[]]})"})
    EXPECT_EQ(parse_json(text, "").dump(), Json::parse(text).dump()) << text;
}

TEST(ParseJson, RefusesWhatTheLibraryRefuses) {
  for (const char* text : {"", "{", "[1,]", "nul", "{\"a\" 1}", "1 2", "\"\xff\"", "1e999"})
    EXPECT_THROW(parse_json(text, ""), NotJson) << text;
  EXPECT_TRUE(
      refusal_to_parse("{").starts_with("x.json: not JSON: parse error at line 1, column 2"));
  EXPECT_EQ(refusal_to_parse("[1,\n1e999]"),
            "x.json: not JSON: number overflow parsing '1e999' at line 2");
  EXPECT_LT(refusal_to_parse("\"" + std::string(1 << 20, 'a')).size(), 300u);
}

TEST(ParseJson, AllowsAHundredLevelsAndNoMore) {
  for (const auto& [open, close] : {std::pair{"[", "]"}, std::pair{"{\"a\":", "}"}}) {
    EXPECT_EQ(refusal_to_parse(nested(100, open, close)), "accepted");
    for (const size_t levels : {size_t{101}, size_t{1'000'000}})
      EXPECT_TRUE(refusal_to_parse(nested(levels, open, close))
                      .starts_with("x.json: is nested more than 100 levels deep, in "))
          << refusal_to_parse(nested(levels, open, close));
  }
  EXPECT_EQ(
      refusal_to_parse("{\"a\": [1, {\"b\": " + nested(100, "[", "]") + "}]}")
          .substr(0,
                  std::string("x.json: is nested more than 100 levels deep, in a[1].b[0]").size()),
      "x.json: is nested more than 100 levels deep, in a[1].b[0]");
}

TEST(ParseJson, RefusesAFieldThatComesTwice) {
  EXPECT_EQ(refusal_to_parse(R"({"a": 1, "b": {"a": 2}, "a": 3})"),
            "x.json: has the field \"a\" twice");
  EXPECT_EQ(refusal_to_parse(R"([0, {"b": [[], {"c": {"a": 1, "a": 3}}]}])"),
            "x.json: has the field \"a\" twice, in [1].b[1].c");
  EXPECT_EQ(refusal_to_parse("{\"a\\n\": {\"b\": 1, \"b\": 1}}").find('\n'), std::string::npos);
}

// Comparing each name with all before would take minutes.
TEST(ParseJson, ReadsAMillionFields) {
  std::string text = "{";
  for (int field = 0; field < 1'000'000; ++field)
    text += (field == 0 ? "\"" : ",\"") + std::to_string(field) + "\":0";
  EXPECT_EQ(parse_json(text + "}", "").size(), 1'000'000u);
}

// 64 MiB of them would take 1.9 GB.
TEST(ParseJson, AllowsTwoMillionValuesAndNoMore) {
  const auto list_of = [](const char* value, size_t count) {
    std::string text = "[";
    for (size_t i = 0; i < count; ++i) text += (i == 0 ? "" : ",") + std::string(value);
    return text + "]";
  };
  EXPECT_EQ(refusal_to_parse(list_of("{}", kJsonValuesMost - 1)), "accepted")
      << "the list is one of them";
  for (const char* value : {"{}", "0", "[]"})
    EXPECT_EQ(refusal_to_parse(list_of(value, kJsonValuesMost)),
              "x.json: has more than 2000000 values");
}

}  // namespace
}  // namespace lockstep
