#include "harness/base/case.h"

#include <gtest/gtest.h>

#include <fstream>
#include <unistd.h>

namespace lockstep {
namespace {

std::string refusal_of_case(const std::string& text) {
  try {
    parse_case_file(text, "x.json");
  } catch (const FieldError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Case, ACaseFileIsReadBackAsItWasWritten) {
  const Case c{"sampler.x", Json::parse(R"({"world":{"size":3},"length":7})")};
  EXPECT_EQ(parse_case_file(case_file({c}), "x.json"), SavedCase{c});
}

TEST(Case, AShrunkCaseKeepsHowItWasDrawn) {
  const Case c{"sampler.x", Json::parse(R"({"world":{"size":2}})")};
  const SavedCase saved{c, Origin{Json::parse(R"({"world":{"size":7}})"), 41, true}};
  EXPECT_EQ(parse_case_file(case_file(saved), "x.json"), saved);
  const std::string start = R"({"lockstep_case":1,"scenario":"a","value":{},"shrunk":)";
  EXPECT_EQ(refusal_of_case(start + "3}"), "x.json: shrunk: must be an object");
  EXPECT_EQ(refusal_of_case(start + "{}}"), "x.json: shrunk.drawn: must be an object");
  EXPECT_EQ(refusal_of_case(start + R"({"drawn":{},"steps":-1}})"),
            "x.json: shrunk.steps: -1 is too small; the least is 0");
  EXPECT_EQ(refusal_of_case(start + R"({"drawn":{},"smalest":true}})"),
            "x.json: shrunk: unknown field 'smalest' (did you mean 'smallest'?); known: drawn, "
            "steps, smallest");
}

TEST(Case, ForeignFilesAreRefusedByPath) {
  EXPECT_EQ(refusal_of_case("{}"),
            "x.json: not a Lockstep case file; expected an object with \"lockstep_case\"");
  EXPECT_EQ(refusal_of_case("hello").substr(0, 45),
            "x.json: not JSON: parse error at line 1, colu");
  EXPECT_EQ(refusal_of_case(R"({"lockstep_case":2})"),
            "x.json: case file version 2; this program reads version 1");
  EXPECT_EQ(refusal_of_case(R"({"lockstep_case":1,"value":{}})"),
            "x.json: \"scenario\" must name a scenario");
  EXPECT_EQ(refusal_of_case(R"({"lockstep_case":1,"scenario":"a","value":3})"),
            "x.json: \"value\" must be an object");
  EXPECT_EQ(
      refusal_of_case(R"({"lockstep_case":1,"scenario":"a","value":{},"valeu":{}})"),
      "x.json: unknown field 'valeu' (did you mean 'value'?); known: lockstep_case, scenario, "
      "value, shrunk");
}

TEST(Case, AnUnreadableFileIsRefusedByPath) {
  EXPECT_THROW(read_case_file("/nowhere/x.json"), FieldError);
  EXPECT_THROW(read_case_file("/"), FieldError);
}

TEST(Case, AnEmptyFileIsCalledEmpty) {
  const auto path = std::filesystem::temp_directory_path() /
                    ("lockstep_empty_case_" + std::to_string(::getpid()) + ".json");
  std::ofstream(path).close();
  try {
    read_case_file(path);
    ADD_FAILURE() << "accepted";
  } catch (const FieldError& error) {
    EXPECT_EQ(error.what(), path.string() + ": is empty; expected a Lockstep case file");
  }
  std::filesystem::remove(path);
}

TEST(Case, WorldAndInjectionsAreFoundInAnyShape) {
  const Case c{"x", Json::parse(R"({"world":{"size":4,"injections":[{"kind":"kill","rank":2}]}})")};
  EXPECT_EQ(world_size(c), 4);
  EXPECT_EQ(world_of(c).injections.at(0).kind, InjectionKind::kill);
  EXPECT_THROW(world_size(Case{"x", Json::parse(R"({"world":{"size":0}})")}), FieldError);
}

TEST(Case, TheHashDependsOnScenarioAndValue) {
  const Json value = Json::parse(R"({"world":{"size":2}})");
  EXPECT_EQ(hash_of(Case{"a", value}), hash_of(Case{"a", value}));
  EXPECT_NE(hash_of(Case{"a", value}), hash_of(Case{"b", value}));
  EXPECT_NE(hash_of(Case{"a", value}), hash_of(Case{"a", Json::parse(R"({"world":{"size":3}})")}));
}

}  // namespace
}  // namespace lockstep
