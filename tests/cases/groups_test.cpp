#include "harness/cases/groups.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(Groups, ShardsAreWrittenAndReadBack) {
  EXPECT_EQ(shard_of("2/5"), (RunShard{2, 5}));
  EXPECT_EQ(shard_text({2, 5}), "2/5");
  EXPECT_EQ(shard_of("10000/10000"), (RunShard{10000, 10000}));
  for (const char* text : {"", "/", "1", "0/3", "4/3", "-1/3", "1/3/5", "1/10001", "a/b", "1/ 3"})
    EXPECT_EQ(shard_of(text), std::nullopt) << text;
}

TEST(Groups, AlikeCasesAreOneGroupInTheOrderOfFirstNumbers) {
  std::vector<CaseGroup> groups;
  add(groups, {.world = 3, .numbers = {5, 7}});
  add(groups, {.world = 2, .numbers = {4}});
  add(groups, {.world = 3, .numbers = {1, 6}});
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].numbers, (NumberSet{1, 5, 6, 7}));
  EXPECT_EQ(groups[1].numbers, (NumberSet{4}));
  cut_after(groups, 3);
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].numbers, (NumberSet{1}));
}

TEST(Groups, RefusedCasesCountAsDrawnAndAsNothingElse) {
  Result result;
  result.groups = {{.world = 2, .labels = {"world 2"}, .numbers = {1, 2}},
                   {.verdict = Verdict::Kind::refused,
                    .reason = "no GPU",
                    .labels = {kDrawn, "hard"},
                    .numbers = {3}},
                   {.world = 4, .labels = {"world 4"}, .numbers = {4}}};
  count_groups(result);
  EXPECT_EQ(result.judged, 3);
  EXPECT_EQ(result.refused, (std::map<std::string, int64_t>{{"no GPU", 1}}));
  EXPECT_EQ(result.labels, (std::map<std::string, int64_t>{
                               {"world 2", 2}, {"world 4", 1}, {kDrawn, 1}, {"hard", 1}}));
  EXPECT_EQ(result.world_min, 2);
  EXPECT_EQ(result.world_max, 4);
}

// So many drawn cases, of which so many are hard.
Result drawn(int64_t cases, int64_t hard) {
  Result result{.judged = cases + 5, .required_shares = {{"hard", 0.2}, {"any", 0}}};
  result.labels = {{kDrawn, cases}, {"hard", hard}};
  return result;
}

TEST(Groups, AShareIsOneOfTheDrawnCases) {
  EXPECT_TRUE(missed_shares(drawn(100, 20)).empty());
  EXPECT_EQ(missed_shares(drawn(100, 0)), (std::vector<RequiredShare>{{"hard", 0.2}}));
  EXPECT_EQ(share_text({"hard", 0.2}, drawn(1100, 190)),
            "hard: 190 of 1,100 drawn cases (17 %), at least 20 % required");
}

// At most 11 of 100 cases at 20 % have the probability 1.3 %, at most 10 have 0.6 %; at most 1,920
// of 10,000 have 2.3 %, at most 1,900 have 0.6 %.
TEST(Groups, AShareThatIsMissedByChanceIsNone) {
  EXPECT_TRUE(missed_shares(drawn(100, 11)).empty());
  EXPECT_FALSE(missed_shares(drawn(100, 10)).empty());
  EXPECT_TRUE(missed_shares(drawn(10'000, 1'920)).empty());
  EXPECT_FALSE(missed_shares(drawn(10'000, 1'900)).empty());
}

TEST(Groups, FewDrawnCasesAreNotJudged) {
  EXPECT_TRUE(missed_shares(drawn(kDrawnForShares - 1, 0)).empty());
  EXPECT_FALSE(missed_shares(drawn(kDrawnForShares, 0)).empty());
}

TEST(Groups, AResultThatHoldsAndMissesAShareFailsAndAnotherStaysWhatItIs) {
  auto result = drawn(100, 9);
  judge_shares(result);
  EXPECT_EQ(result.kind, Result::Kind::fail);
  ASSERT_EQ(result.worst.findings.size(), 1u);
  EXPECT_EQ(result.worst.findings[0].pattern, "label_missed");
  EXPECT_EQ(result.worst.findings[0].diagnosis, share_text({"hard", 0.2}, result));
  auto met = drawn(100, 20);
  judge_shares(met);
  EXPECT_EQ(met.kind, Result::Kind::pass);
  auto hung = drawn(100, 9);
  hung.kind = Result::Kind::hang;
  judge_shares(hung);
  EXPECT_EQ(hung.kind, Result::Kind::hang);
}

TEST(Groups, OfAnotherSubjectThanLockstepsAMissedShareIsNoFailure) {
  auto result = drawn(100, 9);
  result.setting.subject = "pytorch";
  judge_shares(result);
  EXPECT_EQ(result.kind, Result::Kind::pass);
  EXPECT_FALSE(missed_shares(result).empty());
}

TEST(Groups, TheCasesOfASignatureCountAsThoseOfAnother) {
  Result result;
  result.groups = {{.verdict = Verdict::Kind::fail, .signature = "vague", .numbers = {1, 4}},
                   {.verdict = Verdict::Kind::fail, .signature = "explained", .numbers = {2}},
                   {.verdict = Verdict::Kind::fail, .signature = "other", .numbers = {3}}};
  count_groups(result);
  rename_signature(result, "vague", "vague");
  EXPECT_EQ(result.signatures.at("vague"), 2);
  rename_signature(result, "vague", "explained");
  EXPECT_EQ(result.signatures, (std::map<std::string, int64_t>{{"explained", 3}, {"other", 1}}));
  ASSERT_EQ(result.groups.size(), 2u);
  EXPECT_EQ(result.groups[0].numbers, (NumberSet{1, 2, 4}));
  rename_signature(result, "none", "explained");
  EXPECT_EQ(result.signatures.size(), 2u);
}

TEST(Groups, CountsOfSchedulesAddUpAndTheLeastDecisionsCount) {
  ScheduleCounts all;
  add(all, {.schedules = 6, .cases = 1, .complete = 1});
  add(all, {.schedules = 20, .cases = 1, .decisions_min = 9});
  add(all, {.schedules = 30, .cases = 2, .complete = 1, .decisions_min = 7});
  add(all, {.schedules = 2, .cases = 1, .complete = 1});
  EXPECT_EQ(all, (ScheduleCounts{.schedules = 58, .cases = 5, .complete = 3, .decisions_min = 7}));
}

}  // namespace
}  // namespace lockstep
