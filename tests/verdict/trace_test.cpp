#include "harness/verdict/trace.h"

#include "reports/findings/text.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

Collective sum(int64_t sequence, int64_t elements, const std::string& group = "world") {
  return {.op = "allreduce",
          .group = group,
          .dtype = "float32",
          .sequence = sequence,
          .elements = elements};
}

History of(const std::vector<std::vector<Collective>>& by_rank) {
  std::vector<RankHistory> ranks(by_rank.size());
  for (size_t rank = 0; rank < by_rank.size(); ++rank)
    for (const auto& collective : by_rank[rank])
      ranks[rank].events.push_back({{0, "step"}, collective});
  return History(std::move(ranks));
}

std::string text_of_divergence(const History& history) {
  const auto divergence_point = first_divergence_point(history);
  return divergence_point ? divergence_point->text : "";
}

TEST(Trace, RanksThatIssueTheSameAgree) {
  const std::vector<Collective> same{sum(0, 4), sum(1, 2)};
  EXPECT_EQ(first_mismatch(of({same, same, same})), std::nullopt);
  EXPECT_FALSE(first_divergence_point(of({same, same, same})));
}

TEST(Trace, TheFirstDifferenceIsReportedWithBothSides) {
  const auto mismatch = first_mismatch(of({{sum(0, 4), sum(1, 1536)}, {sum(0, 4), sum(1, 2)}}));
  EXPECT_EQ(
      mismatch,
      "collective #1 differs: rank 0 issued allreduce of 1,536 float32, rank 1 allreduce of 2 "
      "float32");
}

TEST(Trace, EveryPartOfACollectiveCounts) {
  const Collective broadcast{.op = "broadcast",
                             .group = "world",
                             .dtype = "uint8",
                             .sequence = 0,
                             .elements = 8,
                             .root = 0};
  for (const auto change : std::vector<void (*)(Collective&)>{
           [](Collective& c) { c.op = "allreduce"; }, [](Collective& c) { c.dtype = "int8"; },
           [](Collective& c) { c.elements = 7; }, [](Collective& c) { c.root = 1; }}) {
    auto other = broadcast;
    change(other);
    EXPECT_TRUE(first_mismatch(of({{broadcast}, {broadcast}, {other}})));
  }
}

TEST(Trace, TheDivergenceHoldsWhatEachRankIssued) {
  auto other = sum(0, 4);
  other.elements = 7;
  const auto mismatch = first_divergence_point(of({{sum(0, 4)}, {other}, {}})).value();
  EXPECT_TRUE(mismatch.is_mismatch);
  EXPECT_EQ(mismatch.issued.at(0), sum(0, 4));
  EXPECT_EQ(mismatch.issued.at(1), other);
  EXPECT_EQ(mismatch.missing, std::vector<int>{2});
}

TEST(Trace, WhatIsOnlyDoneOnSomeRanksIsNoDifference) {
  auto done = sum(0, 4);
  done.done = true;
  EXPECT_EQ(first_mismatch(of({{done}, {sum(0, 4)}})), std::nullopt);
}

TEST(Trace, GroupsAreNumberedApart) {
  EXPECT_EQ(first_mismatch(of({{sum(0, 4, "ranks 0,1")},
                               {sum(0, 4, "ranks 0,1")},
                               {sum(0, 9, "ranks 2,3")},
                               {sum(0, 9, "ranks 2,3")}})),
            std::nullopt);
}

TEST(Trace, UnequalPartsAreAllowedWhereTheOperationAllowsThem) {
  Collective part{.op = "alltoall_base", .group = "world", .dtype = "float32", .elements = 3};
  auto larger = part;
  larger.elements = 5;
  EXPECT_EQ(first_mismatch(of({{part}, {larger}})), std::nullopt);
}

TEST(Trace, ARankThatNeverCameIsNamed) {
  EXPECT_EQ(text_of_divergence(of({{sum(0, 4), sum(1, 2)}, {sum(0, 4)}, {sum(0, 4), sum(1, 2)}})),
            "rank 1 never issued collective #1, allreduce of 2 float32, which ranks 0, 2 issued");
}

TEST(Trace, ARankOfTheWorldThatIssuedNothingIsMissing) {
  EXPECT_EQ(text_of_divergence(of({{sum(0, 4)}, {}})),
            "rank 1 never issued collective #0, allreduce of 4 float32, which rank 0 issued");
}

Collective done(Collective collective) {
  collective.done = true;
  return collective;
}

std::vector<std::string> lines_of_ladder(const History& history) {
  return reports::lines_of(ladder(history));
}

TEST(Ladder, ShowsWhoWaitsAndWhoNeverCame) {
  const std::vector<Collective> waits{done(sum(0, 4)), done(sum(1, 4)), done(sum(2, 4)), sum(3, 8)};
  const std::vector<Collective> skipped{done(sum(0, 4)), done(sum(1, 4)), done(sum(2, 4))};
  EXPECT_EQ(
      lines_of_ladder(of({waits, skipped, waits})),
      (std::vector<std::string>{"collective                 rank 0   rank 1  rank 2",
                                "#1 allreduce of 4 float32    done     done    done",
                                "#2 allreduce of 4 float32    done     done    done",
                                "#3 allreduce of 8 float32   waits  missing   waits  \u25c4"}));
}

TEST(Ladder, ShowsWhatDiffersBesideWhatMostIssued) {
  EXPECT_EQ(lines_of_ladder(of({{sum(0, 4)}, {sum(0, 6)}, {sum(0, 4)}})),
            (std::vector<std::string>{
                "collective                 rank 0                  rank 1  rank 2",
                "#0 allreduce of 4 float32   waits  allreduce of 6 float32   waits  \u25c4"}));
}

TEST(Ladder, OfALargeWorldShowsThoseThatPart) {
  std::vector<std::vector<Collective>> ranks(100, {sum(0, 4)});
  ranks[71] = {};
  EXPECT_EQ(
      lines_of_ladder(of(ranks)),
      (std::vector<std::string>{
          "collective                 rank 0  rank 1  rank 2  rank 3  rank 4  rank 71  of 100",
          "#0 allreduce of 4 float32   waits   waits   waits   waits   waits  missing  \u25c4"}));
}

// The same history of a world that hangs: every rank that has a collective under way is stuck.
History hanging(const std::vector<std::vector<Collective>>& by_rank) {
  auto ranks = of(by_rank).ranks();
  for (auto& rank : ranks)
    for (const auto& event : rank.events)
      if (!std::get<Collective>(event.what).done) rank.ending.kind = Ending::Kind::stuck;
  return History(std::move(ranks));
}

// Rank 1 never sent its part of #1, went on, and waits for others in #2.
TEST(Ladder, PointsAtTheFirstRungThatIsNotDoneEverywhere) {
  const auto history =
      hanging({{done(sum(0, 4)), sum(1, 4)}, {done(sum(0, 4)), done(sum(1, 4)), sum(2, 8)}});
  EXPECT_EQ(lines_of_ladder(history),
            (std::vector<std::string>{"collective                  rank 0  rank 1",
                                      "#0 allreduce of 4 float32     done    done",
                                      "#1 allreduce of 4 float32    waits    done  \u25c4",
                                      "#2 allreduce of 8 float32  missing   waits"}));
  EXPECT_EQ(text_of_divergence(history),
            "rank 0 waits in collective #1, allreduce of 4 float32, which rank 1 completed");
  EXPECT_EQ(issued_where_ranks_part(history).at(1).second.sequence, 1);
}

TEST(Ladder, OfALargeWorldShowsTheOneThatIsDone) {
  std::vector<std::vector<Collective>> ranks(100, {sum(0, 4)});
  ranks[71] = {done(sum(0, 4))};
  EXPECT_NE(lines_of_ladder(hanging(ranks)).front().find("rank 71"), std::string::npos);
}

TEST(Ladder, ACollectiveThatNoRankCompletedIsReported) {
  EXPECT_EQ(text_of_divergence(hanging({{sum(0, 4)}, {sum(0, 4)}})),
            "every rank of the group issued collective #0, allreduce of 4 float32, and none "
            "completed it");
}

// Rank 1 is missing in the group of ranks 0 and 1 as it waits in the world, for rank 2.
TEST(Ladder, AGroupWhoseMissingRankWaitsInAnotherOneIsAConsequence) {
  const auto in_group = done(sum(0, 9, "ranks 0,1"));
  EXPECT_EQ(
      text_of_divergence(hanging({{in_group, sum(1, 9, "ranks 0,1")}, {in_group, sum(0, 4)}, {}})),
      "rank 1 issued one more than ranks 0, 2: collective #0, allreduce of 4 float32");
}

TEST(Ladder, AccusesTheFewerWhereSomeIssuedMoreThanTheOthers) {
  const std::vector<Collective> rest{done(sum(0, 4))};
  const auto history = hanging({rest, {done(sum(0, 4)), sum(1, 4), sum(2, 4)}, rest});
  EXPECT_EQ(text_of_divergence(history),
            "rank 1 issued 2 more than ranks 0, 2: first collective #1, allreduce of 4 float32");
}

TEST(Ladder, OfALargeWorldShowsTheRankThatIssuedOneMore) {
  std::vector<std::vector<Collective>> ranks(100, {done(sum(0, 4))});
  ranks[71] = {done(sum(0, 4)), sum(1, 4)};
  EXPECT_NE(lines_of_ladder(hanging(ranks)).front().find("rank 71"), std::string::npos);
}

TEST(Ladder, IsEmptyWhereAllAgree) {
  EXPECT_TRUE(lines_of_ladder(of({{sum(0, 4)}, {sum(0, 4)}})).empty());
  EXPECT_TRUE(lines_of_ladder(of({{}, {}})).empty());
}

// A send has no place in the order of a group's collectives.
TEST(Trace, SendsAndReceivesAreLeftOut) {
  const Collective send{.op = "send", .group = "world", .dtype = "float32", .elements = 4};
  auto behind = sum(1, 4);
  EXPECT_EQ(first_mismatch(of({{send, behind}, {sum(0, 4)}})), std::nullopt);
  EXPECT_FALSE(first_divergence_point(of({{send, behind}, {sum(0, 4)}})));
}

}  // namespace
}  // namespace lockstep
