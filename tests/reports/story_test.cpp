#include "reports/story.h"

#include "tests/reports/samples.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace lockstep::reports {
namespace {

TEST(Story, TheProgramAndTheUsualCauseFollowTheDiagnosis) {
  auto result = samples::failing();
  result.failure->program = "wraps a network and trains 1 step";
  const auto lines = story(result, "./lockstep");
  EXPECT_EQ(lines.at(2), "  program: wraps a network and trains 1 step");
  EXPECT_TRUE(lines.at(3).starts_with("  usual cause: gradients are summed")) << lines.at(3);
  result.worst.findings.front().limit = "Gloo's broadcast carries no int16";
  EXPECT_EQ(story(result, "./lockstep").at(3), "  limit: Gloo's broadcast carries no int16");
}

TEST(Story, WhereNoCauseOfTheFindingIsKnownItIsTheScenariosUsualMistake) {
  auto result = samples::failing();
  auto& finding = result.worst.findings.front();
  finding.pattern = "every_rank_differs";
  result.failure->usual_mistake = "counting twice.";
  EXPECT_EQ(story_parts(result, "./lockstep").plainly.back(), "usual cause: counting twice");
  finding.cause = "what the check knows";
  EXPECT_EQ(story_parts(result, "./lockstep").plainly.back(), "usual cause: what the check knows");
  finding.cause.clear();
  finding.details.push_back(Cause{"rank 1 has 9 batches"});
  EXPECT_TRUE(story_parts(result, "./lockstep").plainly.empty()) << "said below";
  result.kind = Result::Kind::crash;
  finding.details.clear();
  EXPECT_TRUE(story_parts(result, "./lockstep").plainly.empty()) << "the exception says what it is";
}

TEST(Story, TheNextFindingIsSaidInWords) {
  auto result = samples::failing();
  result.worst.findings.resize(1);
  result.worst.findings.push_back(
      {.rule = "R", .pattern = "p", .where = "rank 1", .diagnosis = "w: another mistake"});
  EXPECT_EQ(story_parts(result, "./lockstep").more,
            std::vector<std::string>{"and 1 more finding, the next at rank 1: w: another mistake"});
}

TEST(Story, AFurtherMistakeOfTheDrawnCaseTakesThePlaceOfConsequences) {
  auto result = samples::failing();
  result.failure->further = {{.rule = "R",
                              .pattern = "kept_own_buffers",
                              .where = {{2, "after"}, "buffer0"},
                              .diagnosis = "buffer0: the rank's own buffers"}};
  EXPECT_EQ(story_parts(result, "./lockstep").more,
            std::vector<std::string>{"a further mistake, in the case as drawn, at step 2, after: "
                                     "buffer0: the rank's own buffers"});
}

TEST(Story, AHeadingBelowATableIsNoNoteOnIt) {
  auto result = samples::failing();
  const Table ladder{{{"collective"}, {"rank 0"}}, {{{{"#1"}, {"waits"}}}}};
  result.worst.findings.front().details = {ladder, "note: the ranks differ",
                                           "how the ranks ended:", "  rank 0 threw"};
  const auto lines = story(result, "./lockstep");
  const auto note = std::find(lines.begin(), lines.end(), "    note: the ranks differ");
  ASSERT_LT(note, lines.end() - 2);
  EXPECT_EQ(note[1], "  how the ranks ended:");
  EXPECT_EQ(note[2], "    rank 0 threw");
}

TEST(Story, WhatWasWrongBeforeABadEndingIsSaidWithItsCause) {
  auto result = samples::failing();
  result.kind = Result::Kind::crash;
  result.worst = {Verdict::Kind::crash,
                  {{"Every rank must return", "threw", "rank 1", "rank 1 threw: no"},
                   {"Every rank must receive the same error",
                    "sentences_differ",
                    {{0, "wrapping"}, "sentence"},
                    "rank 0 received no error; rank 1 received 'no'"}}};
  const auto parts = story_parts(result, "./lockstep");
  EXPECT_EQ(parts.more,
            std::vector<std::string>{"wrong before that, at step 0, wrapping: Every rank must "
                                     "receive the same error: rank 0 received no error; rank 1 "
                                     "received 'no'"});
  EXPECT_TRUE(parts.plainly.back().starts_with("usual cause: a rank throws alone"))
      << parts.plainly.back();
}

}  // namespace
}  // namespace lockstep::reports
