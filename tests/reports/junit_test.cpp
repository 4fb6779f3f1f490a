#include "reports/junit.h"

#include "reports/run_file.h"
#include "tests/reports/junit_rules.h"
#include "tests/reports/parsed.h"
#include "tests/reports/samples.h"

#include <gtest/gtest.h>

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

std::string problems(const lockstep::Run& run) {
  std::string all;
  for (const auto& problem : junit_problems(junit(run))) all += problem + "\n";
  return all;
}

TEST(Junit, EveryRuleOfItsReadersHolds) {
  EXPECT_EQ(problems(run_of_every_kind()), "");
  EXPECT_EQ(problems(samples::run_of({})), "") << "nothing was selected";
  auto run = run_of_every_kind();
  run.canary = lockstep::Run::Canary::passed;
  run.not_finished.push_back({"buffers.follow_rank_zero", {}, "the run was interrupted"});
  EXPECT_EQ(problems(run), "");
  run.results[1].took = std::chrono::hours(30);
  run.results[1].worst.findings[0].diagnosis = "\x01\x1b[2J ]]> <&\"' \xed\xa0\x80";
  run.results[1].failure->tail = std::string(10000, '\xff');
  EXPECT_EQ(problems(run), "");
}

TEST(Junit, SignaturesAreCountedAndStayOneTest) {
  const auto run = samples::run_of({samples::of_two_signatures()});
  EXPECT_EQ(problems(run), "");
  const auto document = parsed(junit(run));
  std::vector<std::string> counts;
  for (const auto& node : document.select_nodes("//property[@name='signature']"))
    counts.push_back(node.node().attribute("value").value());
  ASSERT_EQ(counts.size(), 2u);
  EXPECT_TRUE(counts[0].starts_with("3 x fail: After backward")) << counts[0];
  EXPECT_EQ(counts[1], "2 x hang: Every rank must return [stuck]");
  EXPECT_EQ(document.select_nodes("//testcase").size(), 1u);
  const std::string text = document.select_node("//failure").node().text().get();
  EXPECT_NE(text.find("found in 2 of 400 cases"), std::string::npos) << text;
}

// A rule that finds nothing wrong anywhere proves nothing.
TEST(Junit, EachRuleSeesItsMistake) {
  const auto good = junit(samples::run_of({samples::failing(), samples::of_kind(Kind::skip)}));
  ASSERT_TRUE(junit_problems(good).empty());
  const auto broken = [&](const std::string& what, const std::string& by) {
    const size_t at = good.find(what);
    EXPECT_NE(at, std::string::npos) << what << "\n" << good;
    auto text = good;
    return !junit_problems(text.replace(at, what.size(), by)).empty();
  };
  EXPECT_TRUE(broken("<testsuites", "<suites"));
  EXPECT_TRUE(broken("failures=\"1\"", "failures=\"2\"")) << "of the root";
  EXPECT_TRUE(broken("tests=\"1\"", "tests=\"0\"")) << "of a suite";
  EXPECT_TRUE(broken("name=\"match_single_process", "title=\"match_single_process"));
  EXPECT_TRUE(broken("@lockstep-cold-gloo", "@lockstep-cold-gloo seed 0x5eed42"));
  EXPECT_TRUE(broken("time=\"2.940\"", "time=\"2,940\""));
  EXPECT_TRUE(broken("time=\"2.940\"", "time=\"2.940e0\""));
  EXPECT_TRUE(broken("<failure type=", "<failure kind="));
  EXPECT_TRUE(broken("<skipped message=", "<skipped note="));
  EXPECT_TRUE(broken("<property name=\"replay\"", "<property name=\"again\""));
  EXPECT_TRUE(broken("[[ATTACHMENT|/", "[[ATTACHMENT|"));
  EXPECT_TRUE(broken("\n[[ATTACHMENT", " see [[ATTACHMENT"));
  EXPECT_TRUE(broken("<properties>", "<system-out/><properties>"));
  EXPECT_TRUE(broken("last words", "last \x02 words"));
  EXPECT_TRUE(broken("last words", "last &#2; words"));
}

TEST(Junit, PropertiesSayHowToRunTheCaseAgain) {
  const auto document = parsed(junit(samples::run_of({samples::failing()})));
  const auto value = [&](const std::string& name) {
    return std::string(document.select_node(("//property[@name='" + name + "']").c_str())
                           .node()
                           .attribute("value")
                           .value());
  };
  EXPECT_EQ(value("seed"), "0x5eed42");
  EXPECT_EQ(value("world"), "2") << "the failing case's";
  EXPECT_EQ(value("tier"), "cold");
  EXPECT_EQ(value("backend"), "gloo");
  EXPECT_EQ(value("replay"),
            "./lockstep replay .lockstep/failures/gradients.match_single_process-3f9c1a.json");
}

TEST(Junit, AResultWhoseWorldsShareADeviceSaysThatItIsNoTiming) {
  const auto document = parsed(junit(samples::run_on_one_gpu({samples::passing()})));
  EXPECT_EQ(
      std::string(
          document.select_node("//property[@name='devices']").node().attribute("value").value()),
      "worlds of 2-4 share 1 GPU (NVIDIA H100 80GB HBM3): no timing");
  EXPECT_EQ(junit(samples::run_of({samples::passing()})).find("name=\"devices\""),
            std::string::npos);
}

TEST(Junit, AShrunkCaseSaysHow) {
  const auto text = junit(samples::run_of({samples::shrunk()}));
  EXPECT_NE(text.find("name=\"shrunk\" value=\"smallest case (41 steps down; 1,212 cases tried on "
                      "sim in 0.8 s)\""),
            std::string::npos);
  EXPECT_NE(text.find("samples [1,2]       # passes with [2,2]\n"), std::string::npos);
  EXPECT_EQ(problems(samples::run_of({samples::shrunk()})), "");
}

TEST(Junit, RefusedCasesAreCounted) {
  auto result = samples::passing();
  EXPECT_EQ(junit(samples::run_of({result})).find("name=\"refused\""), std::string::npos);
  result.refused = {{"no reference", 7}, {"no GPU", 2}};
  EXPECT_NE(junit(samples::run_of({result})).find("name=\"refused\" value=\"9\""),
            std::string::npos);
}

TEST(Junit, AFailureIsOneOfTheClaimAndAnErrorAnyOtherEnd) {
  const auto document = parsed(junit(run_of_every_kind()));
  EXPECT_EQ(document.select_nodes("//failure").size(), 2u) << "fail and flaky";
  EXPECT_EQ(document.select_nodes("//error").size(), 4u) << "hang, crash, leak and inconclusive";
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
  result.worst.findings[0].diagnosis = every_byte + "]]> <&\"' \xed\xa0\x80 \xef\xbf\xbf é";
  result.worst.findings[0].rule = every_byte;
  result.worst.findings[0].details.push_back(every_byte);
  result.failure->tail = every_byte;
  result.scenario = "names.\x01<";
  EXPECT_EQ(problems(samples::run_of({result})), "");
  const auto text = junit(samples::run_of({result}));
  EXPECT_NE(text.find("é"), std::string::npos);
  EXPECT_NE(text.find("\\x1b"), std::string::npos);
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
  run.blind = {"agreement"};
  const auto document = parsed(junit(run));
  ASSERT_EQ(document.select_nodes("//failure").size(), 1u);
  EXPECT_STREQ(document.select_node("//failure").node().attribute("message").value(),
               "A canary did not come out as it must (agreement)");
}

TEST(Junit, AStackAndLastWordsAreOutputWithAFileEach) {
  auto result = samples::of_kind(Result::Kind::crash);
  result.failure->stack = "lockstep::act at toys.cpp:80";
  result.failure->stack_file = result.failure->logs / "rank1.stacks";
  const auto text = junit(samples::run_of({result}));
  const auto stack = text.find("lockstep::act at toys.cpp:80\n\nlast words");
  EXPECT_NE(stack, std::string::npos) << text;
  EXPECT_NE(text.find("rank1.stacks]]", stack), std::string::npos);
  EXPECT_NE(text.find("rank1.err]]", stack), std::string::npos);
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
  EXPECT_NO_THROW((void)Json::parse(file_text(run_json(samples::run_of({result})))));
}

}  // namespace
}  // namespace lockstep::reports
