// The words of a verdict: the cause is named first, and nothing is quoted twice.
#include "harness/cases/scenario.h"
#include "reports/findings/text.h"

#include <gtest/gtest.h>

namespace lockstep::judge_words {
namespace {

struct Plain {
  WorldSpec world{.size = 2};
  static constexpr auto fields() { return std::tuple{field("world", &Plain::world)}; }
};

Findings no_finding(const Plain&, const History&) {
  return {};
}

Findings not_seen(const Plain&, const History& h) {
  return h.rows("nowhere").empty() ? Findings{} : Findings{};
}

RankHistory reducing(Ending how, int64_t elements) {
  RankHistory rank;
  rank.events.push_back({{0, "p"}, Observation{"x", int64_values({1})}});
  rank.events.push_back(
      {{0, "p"},
       Collective{.op = "allreduce", .group = "world", .dtype = "float32", .elements = elements}});
  rank.ending = std::move(how);
  rank.last = {0, "p"};
  return rank;
}

Verdict judged(std::vector<RankHistory> ranks,
               Findings (*check)(const Plain&, const History&) = no_finding) {
  const auto toy = scenario<Plain>(
      {.name = "toy.x", .cases = rc::gen::just(Plain{}), .program = nullptr, .checks = {check}});
  return judge(toy, toy.smallest(), History(std::move(ranks)));
}

const Ending kReturned{Ending::Kind::returned, ""};

TEST(JudgeWords, WhatNoRankRecordedTheSubjectLeftOut) {
  const auto finding =
      judged({reducing(kReturned, 2), reducing(kReturned, 2)}, not_seen).findings.at(0);
  EXPECT_EQ(finding.pattern, "recorded_less");
  EXPECT_EQ(finding.diagnosis,
            "no rank recorded anything in phase nowhere: the subject left it out");
}

TEST(JudgeWords, ARankThatThrowsInWhatTheBackendLacksHasMetALimit) {
  const auto thrown = [](bool done, const std::string& dtype) {
    auto rank = reducing({Ending::Kind::threw, "no"}, 2);
    auto& collective = std::get<Collective>(rank.events.back().what);
    collective.done = done;
    collective.dtype = dtype;
    return judged({rank, rank}).findings.at(0).limit;
  };
  EXPECT_TRUE(thrown(false, "int16").starts_with("Gloo's allreduce carries no int16"));
  EXPECT_EQ(thrown(true, "int16"), "");
  EXPECT_EQ(thrown(false, "float32"), "");
}

TEST(JudgeWords, ALeakNamesTheCollectivesThatDoNotMatch) {
  auto left = reducing(kReturned, 2);
  left.events.push_back({{0, "p"}, LeftBehind{"1 collective still under way"}});
  EXPECT_EQ(judged({left, reducing(kReturned, 3)}).findings.at(0).diagnosis,
            "collective #0 differs: rank 0 issued allreduce of 2 float32, rank 1 allreduce of 3 "
            "float32; rank 0: 1 collective still under way");
}

TEST(JudgeWords, ALeakNamesTheCollectiveThatAPeerNeverIssued) {
  auto left = reducing(kReturned, 2);
  left.events.push_back({{0, "p"}, LeftBehind{"1 collective still under way"}});
  auto silent = reducing(kReturned, 2);
  silent.events.pop_back();
  EXPECT_EQ(judged({left, silent}).findings.at(0).diagnosis,
            "rank 1 never issued collective #0, allreduce of 2 float32, which rank 0 issued; rank "
            "0: 1 collective still under way");
}

TEST(JudgeWords, AnExceptionThatNamesTheMismatchIsQuotedOnce) {
  const Ending threw{Ending::Kind::threw, "collective #0 differs: some words of it"};
  const auto finding = judged({reducing(threw, 2), reducing(threw, 3)}).findings.at(0);
  EXPECT_EQ(finding.diagnosis,
            "collective #0 differs: rank 0 issued allreduce of 2 float32, rank 1 allreduce of 3 "
            "float32; rank 0 threw, at step 0, p");
  EXPECT_EQ(reports::text_of(finding).find("some words"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::judge_words
