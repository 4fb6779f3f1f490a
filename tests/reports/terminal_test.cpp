#include "reports/terminal.h"

#include "harness/base/text.h"
#include "tests/reports/samples.h"

#include <gtest/gtest.h>

#include <map>

namespace lockstep::reports {
namespace {

using samples::failing;
using samples::of_kind;
using samples::passing;
using samples::run_of;

constexpr Columns kColumns{30, 4, 9};

TEST(Terminal, AShrunkCaseIsShownFieldByField) {
  auto result = samples::shrunk();
  const auto text = [&] { return result_text(result, run_of({}), kColumns, {}); };
  EXPECT_NE(text().find("  smallest case (41 steps down; 1,212 cases tried on sim in 0.8 s)\n"
                        "    world 2             # passes with 1\n"
                        "    samples [1,2]       # passes with [2,2]\n"
                        "    options.drop true   # or any other value\n"
                        "    mode pad            # passes with cut\n"
                        "  any      lr · seed\n"
                        "  drawn    world 4 · samples [5,7,2] · options.drop true · lr 0.125\n"
                        "  first divergence"),
            std::string::npos)
      << text();
  auto& shrunk = *result.failure->shrunk;
  shrunk.end = Shrunk::End::time;
  EXPECT_NE(text().find("  smallest case so far (41 steps down; 1,212 cases tried on sim in 0.8 s; "
                        "replay --shrink continues)\n"),
            std::string::npos);
  shrunk.end = Shrunk::End::interrupted;
  EXPECT_NE(text().find("in 0.8 s; interrupted: replay --shrink continues)\n"), std::string::npos);
  shrunk.end = Shrunk::End::smallest;
  shrunk.failed = 4;
  shrunk.smallest_runs = 10;
  EXPECT_NE(text().find("in 0.8 s; it fails 4 of 10 times)\n"), std::string::npos);
  shrunk.steps = 0;
  shrunk.drawn = result.failure->c.value;
  EXPECT_NE(text().find("  smallest case (no step down fails alike; 1,212"), std::string::npos);
  EXPECT_EQ(text().find("  drawn "), std::string::npos);
}

TEST(Terminal, FieldsThatMayHoldAnythingTakeOneLine) {
  auto result = samples::shrunk();
  auto& notes = result.failure->shrunk->notes;
  for (const char* const name : {"options.a", "options.b", "options.c"})
    notes.push_back({name, 0, true, ""});
  for (int i = 0; i < 30; ++i) notes.push_back({"field" + std::to_string(i), 0, true, ""});
  const auto text = result_text(result, run_of({}), kColumns, {});
  EXPECT_NE(text.find("\n  any      lr · seed · options (3 fields) · field0 · "), std::string::npos)
      << text;
  const auto line = text.substr(text.find("  any "));
  EXPECT_NE(line.substr(0, line.find('\n')).find(" · and 2"), std::string::npos) << text;
  EXPECT_EQ(line.find("\n  drawn "), line.find('\n')) << text;
}

TEST(Terminal, ASkipNamesTheReasonOfMostCases) {
  auto result = of_kind(Result::Kind::skip);
  result.refused = {{"a rare reason", 1}, {"the usual reason", 7}, {"this one", 2}};
  EXPECT_NE(
      result_text(result, run_of({}), kColumns, {}).find("the usual reason, and 2 more reasons"),
      std::string::npos);
}

TEST(Terminal, TheClaimIsTheHeadlineOfRanksThatEndBadly) {
  auto result = samples::of_two_signatures();
  for (const auto& [kind, ended] : std::map<Result::Kind, std::string>{
           {Result::Kind::crash, "it crashed: "},
           {Result::Kind::hang, "it hung: "},
           {Result::Kind::leak, "every rank returned without an error: "}}) {
    result.others.front().kind = kind;
    const auto text = result_text(result, run_of({}), kColumns, {});
    EXPECT_NE(text.find("\n\n✗ " + result.claim + "\n  " + ended + "stuck\n"), std::string::npos)
        << text;
  }
}

TEST(Terminal, WorldsThatShareADeviceAreSaidToAndHaveNoTime) {
  const auto run = samples::run_on_one_gpu({});
  EXPECT_EQ(headline(run, {}),
            "lockstep 0.1.0 · libtorch 2.11.0 · nccl · seed 0x5eed42 · 2 cores\n"
            "worlds of 2-4 share 1 GPU (NVIDIA H100 80GB HBM3): judged as ever, never timed\n");
  auto result = passing();
  result.setting.backend = "nccl";
  EXPECT_TRUE(result_text(result, run, kColumns, {}).starts_with("  PASS     –   gradients"));
  result.world_min = result.world_max = 1;
  EXPECT_TRUE(result_text(result, run, kColumns, {}).starts_with("  PASS   2.9s  gradients"));
  result = passing();
  EXPECT_TRUE(result_text(result, run, kColumns, {}).starts_with("  PASS   2.9s  gradients"));
}

TEST(Terminal, SeveralSharedDevicesAreInThePlural) {
  auto run = samples::run_on_one_gpu({});
  run.shared_devices.front().count = 2;
  run.shared_devices.front().world_least = 4;
  EXPECT_NE(headline(run, {}).find("worlds of 4 share 2 GPUs (NVIDIA H100 80GB HBM3): "),
            std::string::npos);
}

TEST(Terminal, AFailureOfALaunchedWorldIsReplayedInOne) {
  auto result = failing();
  result.setting = {result.setting.subject, "launched", "accelerator"};
  EXPECT_NE(
      result_text(result, run_of({}), kColumns, {})
          .find("  replay   ./lockstep launch -n 2 ./lockstep replay "
                ".lockstep/failures/gradients.match_single_process-3f9c1a.json --tier launched "
                "--backend accelerator\n"),
      std::string::npos);
}

TEST(Terminal, WithoutUnicodeEveryByteIsAscii) {
  for (const char byte : result_text(failing(), run_of({}), kColumns, {.unicode = false}))
    EXPECT_GE(byte, 0) << "not ASCII";
  EXPECT_EQ(shown("✗ … – ◄ · é", {.unicode = false}), "x ... - <- - ?");
}

TEST(Terminal, WhatARankWroteCannotMoveTheCursor) {
  auto result = failing();
  result.failure->tail = "\033[2J\rgone";
  const auto text = result_text(result, run_of({}), kColumns, {});
  EXPECT_EQ(text.find('\033'), std::string::npos);
  EXPECT_EQ(text.find('\r'), std::string::npos);
  EXPECT_NE(text.find("\\x1b[2J\\x0dgone"), std::string::npos);
}

TEST(Terminal, TheSummaryCountsTheReasonsOfSkips) {
  auto run = run_of({passing()});
  for (const char* reason : {"no GPU", "needs NCCL", "no GPU"}) {
    run.results.push_back(of_kind(Result::Kind::skip));
    run.results.back().refused = {{reason, 3}};
  }
  EXPECT_NE(summary(run, {}).find("1 passed, 3 skipped (2: no GPU, 1: needs NCCL)"),
            std::string::npos);
  run.results.push_back(of_kind(Result::Kind::skip));
  run.results.back().refused = {{"a third reason", 3}};
  EXPECT_NE(summary(run, {}).find("4 skipped (2: no GPU, 1: a third reason, and 1 more reason)"),
            std::string::npos)
      << summary(run, {});
  run.results.push_back(of_kind(Result::Kind::skip));
  run.results.back().refused = {{"not judged: divided", 1}};
  run.results.back().worst.findings = {{"", kNotCovered, "", "not judged: divided"}};
  EXPECT_NE(summary(run, {}).find("5 skipped (1: not judged: divided, 2: no GPU, and 2 more"),
            std::string::npos);
}

TEST(Terminal, ACanaryThatPassesIsSaidInASentenceWithTheJudgementThatIsBlind) {
  auto run = run_of({passing()});
  run.canary = lockstep::Run::Canary::passed;
  EXPECT_NE(summary(run, {}).find("✗ A scenario that must fail passed"), std::string::npos);
  run.blind = {"values", "tap"};
  EXPECT_NE(
      summary(run, {}).find("✗ A canary did not come out as it must (values, tap): the passes "
                            "above prove nothing"),
      std::string::npos);
}

TEST(Terminal, WhatHasNoResultIsCounted) {
  auto run = run_of({passing()});
  run.not_finished.push_back({"buffers.follow_rank_zero", {}, "the run was interrupted"});
  const auto text = summary(run, {});
  EXPECT_NE(text.find("2 scenarios: 1 passed, 1 not finished"), std::string::npos) << text;
  EXPECT_NE(text.find("no result for 1 scenario: the run was interrupted"), std::string::npos);
}

TEST(Terminal, AResultWithoutAnyCaseIsShownToo) {
  auto result = failing();
  result.failure.reset();
  result.judged = 0;
  EXPECT_NE(result_text(result, run_of({}), kColumns, {}).find("no case"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::reports
