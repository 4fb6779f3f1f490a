#include "reports/github.h"

#include "harness/base/text.h"
#include "tests/reports/samples.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace lockstep::reports {
namespace {

using Kind = Result::Kind;
using samples::failing;
using samples::of_kind;
using samples::passing;
using samples::run_of;

std::vector<std::string> lines_of(const std::string& text) {
  auto lines = split(text, '\n');
  EXPECT_EQ(lines.back(), "");
  lines.pop_back();
  return lines;
}

lockstep::Run run_with_failures(int count) {
  auto run = run_of({passing()});
  for (int at = 0; at < count; ++at) {
    run.results.push_back(failing());
    run.results.back().scenario = "some.scenario_" + std::to_string(at);
  }
  return run;
}

TEST(Github, EachSignatureHasItsAnnotationWithItsCount) {
  const auto lines = lines_of(annotations(run_of({samples::of_two_signatures()})));
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_NE(lines[0].find("found in: 3 of 400 cases"), std::string::npos) << lines[0];
  EXPECT_TRUE(lines[1].starts_with("::error title=hang%3A ")) << lines[1];
  EXPECT_NE(lines[1].find("found in: 2 of 400 cases"), std::string::npos) << lines[1];
}

TEST(Github, WhatHoldsNeedsNoAnnotation) {
  EXPECT_EQ(annotations(run_of({passing(), of_kind(Kind::skip)})), "");
}

TEST(Github, ThereAreAtMostNineAndTheLastCountsTheRest) {
  EXPECT_EQ(lines_of(annotations(run_with_failures(9))).size(), 9u);
  const auto lines = lines_of(annotations(run_with_failures(12)));
  ASSERT_EQ(lines.size(), 9u);
  EXPECT_NE(lines[8].find("and 4 more results"), std::string::npos) << lines[8];
}

TEST(Github, NothingInAFindingEndsACommandOrBeginsOne) {
  auto result = failing();
  result.scenario = "a,b:c%\r\n::error::";
  result.worst.findings[0].rule = "100%\r\n::set-output name=x::y\x01";
  const auto text = annotations(run_of({result}));
  EXPECT_EQ(lines_of(text).size(), 1u) << text;
  EXPECT_TRUE(text.starts_with("::error title=fail%3A a%2Cb%3Ac%25\\x0d%0A%3A%3Aerror%3A%3A "))
      << text;
  EXPECT_NE(text.find("::100%25"), std::string::npos) << text;
  EXPECT_EQ(text.find('\r'), std::string::npos);
}

TEST(Github, ACanaryThatPassesIsAnError) {
  auto run = run_of({passing()});
  run.canary = lockstep::Run::Canary::passed;
  run.blind = {"agreement"};
  EXPECT_TRUE(annotations(run).starts_with(
      "::error title=canary::A canary did not come out as it must (agreement): "));
}

TEST(Github, TheSummaryHasTheWholeStory) {
  const auto text = step_summary(run_of({passing(), failing()}));
  EXPECT_TRUE(text.starts_with("## Lockstep: failed\n\n```text\nlockstep 0.1.0 · libtorch"))
      << text;
  EXPECT_NE(text.find("PASS   2.9s  gradients.match_single_process"), std::string::npos);
  EXPECT_NE(text.find("### fail: `gradients.match_single_process` (`lockstep, cold, gloo`)\n\n"
                      "```text\n✗ After backward every rank"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("  ◄\n"), std::string::npos);
  EXPECT_NE(text.find("    | last words\n```\n"), std::string::npos) << text;
}

// As CommonMark reads it: a fence is closed by a line of at least as many backticks and no text.
size_t fences_left_open(const std::string& text) {
  size_t open = 0;
  for (const auto& line : split(text, '\n')) {
    const size_t from = std::min(line.find_first_not_of(' '), line.size());
    const size_t ticks = line.find_first_not_of('`', from) == std::string::npos
                             ? line.size() - from
                             : line.find_first_not_of('`', from) - from;
    const bool bare = line.find_first_not_of("` ") == std::string::npos;
    if (open == 0 && ticks >= 3) {
      open = ticks;
    } else if (open > 0 && ticks >= open && bare) {
      open = 0;
    } else if (open == 0 && line.find("injected") != std::string::npos) {
      return 1000;  // It stands outside any fence.
    }
  }
  return open;
}

TEST(Github, NoStoryLeavesItsFence) {
  for (const char* text : {"```\ninjected <b>", "`````\ninjected", "~~~\ninjected\n````````",
                           "\n```\n\n# injected", "\r```\rinjected"}) {
    auto result = failing();
    result.worst.findings[0].diagnosis = text;
    result.worst.findings[0].details.push_back(text);
    result.failure->tail = text;
    EXPECT_EQ(fences_left_open(step_summary(run_of({result}))), 0u) << text;
  }
  auto named = failing();
  named.scenario = "a`\n# injected";
  EXPECT_NE(step_summary(run_of({named})).find("\n### fail: `a'\\x0a# injected` (`"),
            std::string::npos);
}

TEST(Github, TheSummaryNeverExceedsItsLimit) {
  auto run = run_with_failures(40);
  for (auto& result : run.results)
    if (result.failure) result.failure->tail = std::string(100 << 10, 'x') + "\nlast";
  const auto text = step_summary(run);
  EXPECT_LE(text.size(), kSummaryBytesMost);
  EXPECT_GT(text.size(), kSummaryBytesMost / 2);
  EXPECT_EQ(fences_left_open(text), 0u);
  EXPECT_NE(text.find(" more results had no room here."), std::string::npos);
  const auto few = run_with_failures(5);
  for (size_t most = 0; most < 6000; most += 37) {
    const auto small = step_summary(few, most);
    EXPECT_LE(small.size(), most);
    EXPECT_EQ(fences_left_open(small), 0u) << most;
  }
}

TEST(Github, TheSummaryIsUtf8) {
  auto result = failing();
  result.failure->tail = "\xff\x1b[2J";
  EXPECT_NE(step_summary(run_of({result})).find("| \\xff\\x1b[2J"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::reports
