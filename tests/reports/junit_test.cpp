#include "reports/junit.h"

#include "reports/json.h"
#include "tests/reports/samples.h"

#include <gtest/gtest.h>
#include <pugixml.hpp>

#include <set>

namespace lockstep::reports {
namespace {

using Kind = Result::Kind;

constexpr Kind kEveryKind[] = {Kind::pass, Kind::fail,  Kind::hang,         Kind::crash,
                               Kind::leak, Kind::flaky, Kind::inconclusive, Kind::skip};

lockstep::Run run_of_every_kind() {
  std::vector<Result> results;
  for (const auto kind : kEveryKind) results.push_back(samples::of_kind(kind));
  auto run = samples::run_of(std::move(results));
  run.canary = lockstep::Run::Canary::failed;
  return run;
}

pugi::xml_document parsed(const std::string& text) {
  pugi::xml_document document;
  const auto result = document.load_string(text.c_str());
  EXPECT_TRUE(result) << result.description() << "\n" << text;
  return document;
}

TEST(Junit, NamesAreUnique) {
  std::set<std::string> names;
  const auto document = parsed(junit(run_of_every_kind()));
  const auto tests = document.select_nodes("//testcase");
  for (const auto& test : tests)
    names.insert(std::string(test.node().attribute("classname").value()) + " " +
                 test.node().attribute("name").value());
  EXPECT_EQ(names.size(), tests.size());
  EXPECT_TRUE(names.contains("lockstep.gradients match_single_process@lockstep-cold-gloo"));
}

TEST(Junit, CountsAgreeWithTheElements) {
  const auto document = parsed(junit(run_of_every_kind()));
  const auto sum = [&](const std::string& attribute) {
    size_t total = 0;
    for (const auto& suite : document.select_nodes("//testsuite"))
      total += suite.node().attribute(attribute.c_str()).as_uint();
    return total;
  };
  EXPECT_EQ(sum("tests"), document.select_nodes("//testcase").size());
  EXPECT_EQ(sum("failures"), document.select_nodes("//failure").size());
  EXPECT_EQ(sum("errors"), document.select_nodes("//error").size());
  EXPECT_EQ(sum("skipped"), document.select_nodes("//skipped").size());
  EXPECT_EQ(sum("failures"), 2u) << "fail and flaky";
  EXPECT_EQ(sum("errors"), 4u) << "hang, crash, leak and inconclusive";
}

TEST(Junit, AFailureIsTypedByItsPattern) {
  const auto document = parsed(junit(samples::run_of({samples::failing()})));
  EXPECT_STREQ(document.select_node("//failure").node().attribute("type").value(),
               "gradients.sum_not_average");
}

TEST(Junit, WhateverAFindingHoldsTheFileIsWellFormed) {
  auto result = samples::failing();
  std::string every_byte;
  for (int byte = 1; byte < 256; ++byte) every_byte += static_cast<char>(byte);
  result.worst.findings[0].text = every_byte + "]]> <&\"' \xed\xa0\x80 \xef\xbf\xbf é";
  result.worst.findings[0].rule = every_byte;
  result.failure->tail = every_byte;
  result.scenario = "names.\x01<";
  const auto text = junit(samples::run_of({result}));
  for (const char byte : text)
    EXPECT_TRUE(static_cast<unsigned char>(byte) >= 0x20 || byte == '\n' || byte == '\t');
  for (size_t at = text.find("&#"); at != std::string::npos; at = text.find("&#", at + 1))
    EXPECT_TRUE(text.substr(at).starts_with("&#10;") || text.substr(at).starts_with("&#09;") ||
                text.substr(at).starts_with("&#9;"))
        << text.substr(at, 8);
  parsed(text);
  EXPECT_NE(text.find("é"), std::string::npos);
  EXPECT_NE(text.find("\\x1b"), std::string::npos);
}

TEST(Junit, NoNameHoldsASeedOrAPath) {
  auto run = run_of_every_kind();
  const auto names = [](const lockstep::Run& of) {
    std::string all;
    const auto document = parsed(junit(of));
    for (const auto& test : document.select_nodes("//testcase"))
      all += std::string(test.node().attribute("name").value()) + "\n";
    return all;
  };
  const auto before = names(run);
  run.seed = 1;
  run.folder = "/elsewhere/runs/2";
  EXPECT_EQ(names(run), before);
}

TEST(Junit, AnUnfinishedScenarioIsAnError) {
  auto run = samples::run_of({});
  run.not_finished.push_back({"buffers.follow_rank_zero", {}, "the run was interrupted"});
  const auto document = parsed(junit(run));
  EXPECT_STREQ(document.select_node("//error").node().attribute("type").value(), "not_finished");
}

TEST(Junit, ACanaryThatPassesIsAFailure) {
  auto run = samples::run_of({samples::passing()});
  run.canary = lockstep::Run::Canary::passed;
  EXPECT_EQ(parsed(junit(run)).select_nodes("//failure").size(), 1u);
}

TEST(RunJson, HoldsEveryResult) {
  const auto run = run_of_every_kind();
  const auto json = Json::parse(file_text(run_json(run)));
  EXPECT_EQ(json["lockstep_run"], 1);
  EXPECT_EQ(json["seed"], "0x5eed42");
  ASSERT_EQ(json["results"].size(), run.results.size());
  EXPECT_EQ(json["results"][1]["result"], "fail");
  EXPECT_EQ(json["results"][1]["failure"]["case"], run.results[1].failure->c.value);
  EXPECT_FALSE(json["results"][0].contains("failure"));
}

TEST(RunJson, TextThatIsNoUtf8IsReplaced) {
  auto result = samples::failing();
  result.failure->tail = "\xff";
  EXPECT_NO_THROW(Json::parse(file_text(run_json(samples::run_of({result})))));
}

}  // namespace
}  // namespace lockstep::reports
