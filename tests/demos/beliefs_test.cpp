// Every belief in a simulated world: it fails where its condition is not met and holds where it is,
// and what is said of it changes where the two runs are made alike.
#include "demos/beliefs/beliefs.h"

#include "harness/base/text.h"
#include "reports/pictures/page.h"
#include "reports/pictures/text.h"
#include "tests/demos/demo_run.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace lockstep {
namespace {

constexpr size_t kCount = 32;

std::string text_of(const Verdict& verdict) {
  return verdict.findings.empty() ? std::string(name_of(verdict.kind))
                                  : verdict.findings.front().diagnosis;
}

std::string finding_of(const Demo& belief, const DemoRun& run) {
  return belief.show(run.c, run.history).finding;
}

TEST(Beliefs, AreNumberedWithoutAGap) {
  const auto all = beliefs();
  ASSERT_EQ(all.size(), kCount);
  for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i].name, "belief-" + std::to_string(i + 1));
}

TEST(Beliefs, HoldExactlyWhereTheirConditionIsMet) {
  for (const auto& belief : beliefs()) {
    const auto run = run_demo(belief);
    EXPECT_EQ(run.verdict.kind, Verdict::Kind::pass) << belief.name << ": " << text_of(run.verdict);
    const auto finding = finding_of(belief, run);
    EXPECT_TRUE(finding.starts_with("\"" + belief.lesson + "\" fails ")) << finding;
    EXPECT_NE(finding.find(" and holds "), std::string::npos) << finding;
  }
}

TEST(Beliefs, FailInBothRunsWhereTheConditionIsNeverMet) {
  for (const auto& belief : beliefs()) {
    const auto run = run_demo(belief, {}, "condition_unmet");
    ASSERT_EQ(run.verdict.kind, Verdict::Kind::fail) << belief.name << ": " << text_of(run.verdict);
    EXPECT_EQ(run.verdict.findings.front().pattern, "belief_fails") << belief.name;
    const auto finding = finding_of(belief, run);
    EXPECT_NE(finding.find(" fails "), std::string::npos) << finding;
    EXPECT_NE(finding.find(" and fails "), std::string::npos) << finding;
  }
}

// Belief 24 has no such mistake: its first run ends the world.
TEST(Beliefs, HoldInBothRunsWhereTheConditionIsAlwaysMet) {
  for (const auto& belief : beliefs()) {
    if (belief.mistakes.size() == 1) {
      EXPECT_EQ(belief.name, "belief-24");
      EXPECT_THROW(belief.case_of({}, "condition_met"), FieldError);
      continue;
    }
    const auto run = run_demo(belief, {}, "condition_met");
    ASSERT_EQ(run.verdict.kind, Verdict::Kind::fail) << belief.name << ": " << text_of(run.verdict);
    EXPECT_EQ(run.verdict.findings.front().pattern, "belief_holds") << belief.name;
    const auto finding = finding_of(belief, run);
    EXPECT_NE(finding.find(" holds "), std::string::npos) << finding;
    EXPECT_NE(finding.find(" and holds "), std::string::npos) << finding;
  }
}

// In some worlds a condition is met without more: 10 samples divide by 2.
TEST(Beliefs, HoldOrFailByTheirConditionInTheSmallestAndTheLargestWorld) {
  for (const auto& belief : beliefs()) {
    const auto& allowed = belief.settings.at(0).leaf.allowed;
    for (const auto world : std::set{allowed.least, allowed.most}) {
      const auto run = run_demo(belief, {{"world", std::to_string(world)}});
      EXPECT_EQ(run.verdict.kind, Verdict::Kind::pass)
          << belief.name << " --set world=" << world << ": " << text_of(run.verdict);
    }
  }
}

TEST(Beliefs, AreDrawnWithinEightyColumnsAndOnAPage) {
  std::map<std::string, int> answers;
  for (const auto& belief : beliefs()) {
    const auto run = run_demo(belief);
    const auto story = belief.show(run.c, run.history);
    ASSERT_EQ(story.pictures.size(), 2U) << belief.name;
    ASSERT_TRUE(story.question) << belief.name;
    ++answers[story.question->answer];
    for (const auto& picture : story.pictures) {
      for (const auto& line : split(reports::text_of(picture, {.columns = 80}), '\n'))
        EXPECT_LE(reports::width(line), 80U) << line;
      EXPECT_NO_THROW(reports::page(
          {.title = "t", .finding = "f", .text = "", .pictures = {picture}, .command = "c"}));
    }
  }
  EXPECT_GE(answers["yes"], 12);  // so that nobody learns the answer instead of the belief
  EXPECT_GE(answers["no"], 12);
  EXPECT_EQ(answers.size(), 2U);
}

// Numbers that were computed by hand.
TEST(Beliefs, HaveTheNumbersOfPaperAndPencil) {
  const auto says = [](size_t number) {
    const auto all = beliefs();
    const auto& belief = all.at(number - 1);
    const auto run = run_demo(belief);
    std::string captions;
    for (const auto& picture : belief.show(run.c, run.history).pictures)
      captions += picture.caption + "\n";
    return captions;
  };
  const std::vector<std::pair<size_t, const char*>> known{
      {1, "12 drawn of 10, 10 distinct"},
      {2, "8 drawn of 10, 8 distinct"},
      {5, "gradient is 20.6667, one process has 15"},
      {14, "report 0.4, one process has 0.2"},
      {15, "average is 0.5, over all samples it is 0.8"},
      {19, "by 1 at first, by 1 after 10 steps"},
      {21, "all-reduced it is 1.13137, the gradient's norm is 0.8"},
      {26, "agree on 3, one process has 1.5"}};
  for (const auto& [number, text] : known)
    EXPECT_NE(says(number).find(text), std::string::npos) << says(number);
}

}  // namespace
}  // namespace lockstep
