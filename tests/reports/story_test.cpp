#include "reports/story.h"

#include "tests/reports/samples.h"

#include <gtest/gtest.h>

namespace lockstep::reports {
namespace {

TEST(Story, TheProgramAndTheUsualCauseFollowTheDiagnosis) {
  auto result = samples::failing();
  result.failure->program = "wraps a network and trains 1 step";
  const auto lines = story(result, "./lockstep");
  EXPECT_EQ(lines.at(2), "  program: wraps a network and trains 1 step");
  EXPECT_TRUE(lines.at(3).starts_with("  usual cause: gradients are summed")) << lines.at(3);
  result.worst.findings.front().pattern = "threw";
  result.worst.findings.front().diagnosis = "rank 0 threw: Invalid scalar type";
  EXPECT_TRUE(story(result, "./lockstep").at(3).starts_with("  limit: Gloo's collectives"));
}

TEST(Story, TheNextFindingIsSaidInWords) {
  auto result = samples::failing();
  result.worst.findings.resize(1);
  result.worst.findings.push_back(
      {.rule = "R", .pattern = "p", .where = "rank 1", .diagnosis = "w: another mistake"});
  EXPECT_EQ(story_parts(result, "./lockstep").more,
            "and 1 more finding, the next at rank 1: w: another mistake");
}

}  // namespace
}  // namespace lockstep::reports
