#include "harness/verdict/compare.h"
#include "reports/pages/shown_case.h"
#include "reports/pictures/communication.h"
#include "reports/pictures/observed.h"
#include "tests/reports/samples.h"

#include <gtest/gtest.h>

#include <span>

namespace lockstep::reports {
namespace {

TensorValue floats(const std::vector<float>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {"float32", {static_cast<int64_t>(values.size())}, {bytes.begin(), bytes.end()}};
}

Event seen(int step, const std::string& phase, const std::string& name, TensorValue value) {
  return {{step, phase}, Observation{name, std::move(value)}};
}

Event issued(int64_t sequence, int64_t elements, bool done, int64_t queued = -1, int64_t end = -1) {
  return {{0, "step"},
          Collective{.op = "allreduce",
                     .group = "world",
                     .dtype = "float32",
                     .sequence = sequence,
                     .elements = elements,
                     .done = done,
                     .times = {queued, end}}};
}

History of(std::vector<std::vector<Event>> by_rank) {
  std::vector<RankHistory> ranks(by_rank.size());
  for (size_t rank = 0; rank < by_rank.size(); ++rank)
    ranks[rank].events = std::move(by_rank[rank]);
  return History(std::move(ranks));
}

// Rank 1 left out #1, and what it issued as #1 is of another size.
History hang() {
  auto history = of({{issued(0, 4, true), issued(1, 6, false)},
                     {issued(0, 4, true)},
                     {issued(0, 4, true), issued(1, 6, false)}});
  auto ranks = history.ranks();
  for (auto& rank : ranks) rank.ending.kind = Ending::Kind::stuck;
  return History(std::move(ranks));
}

std::vector<std::string> row_of(const Picture& picture, size_t row) {
  return data_table(picture).rows.at(row);
}

using Texts = std::vector<std::string>;

TEST(LadderPicture, ShowsTheMissingRung) {
  const auto picture = ladder_picture(hang());
  ASSERT_TRUE(picture);
  EXPECT_NO_THROW(check(*picture));
  EXPECT_EQ(picture->caption,
            "rank 1 never issued collective #1, allreduce of 6 float32, which ranks 0, 2 issued; "
            "1 of 2 collectives completed by every rank");
  EXPECT_EQ(row_of(*picture, 0), (Texts{"issued by most", "allreduce 4", "allreduce 6"}));
  EXPECT_EQ(row_of(*picture, 1), (Texts{"rank 0", "done", "waits*"}));
  EXPECT_EQ(row_of(*picture, 2), (Texts{"rank 1", "done", "missing?"}));
}

TEST(LadderPicture, ShowsWhatARankIssuedInstead) {
  const auto picture =
      ladder_picture(of({{issued(0, 4, false)}, {issued(0, 9, false)}, {issued(0, 4, false)}}));
  ASSERT_TRUE(picture);
  EXPECT_EQ(row_of(*picture, 2), (Texts{"rank 1", "allreduce 9✗"}));
}

TEST(LadderPicture, OfManyCollectivesShowsThoseAroundThePlace) {
  std::vector<Event> all, fewer;
  for (int64_t number = 0; number < 100; ++number) {
    all.push_back(issued(number, 1, true));
    if (number < 80) fewer.push_back(issued(number, 1, true));
  }
  const auto picture = ladder_picture(of({all, fewer}));
  ASSERT_TRUE(picture);
  EXPECT_EQ(data_table(*picture).header.at(1), "#74");
  EXPECT_EQ(data_table(*picture).header.back(), "#83");
  EXPECT_NE(picture->caption.find("80 of 100 collectives completed"), std::string::npos);
}

TEST(LadderPicture, IsNothingWithoutCollectives) {
  EXPECT_FALSE(ladder_picture(of({{}, {}})));
}

TEST(CommunicationPicture, BeginsAtTheFirstCollective) {
  const auto picture = communication_picture(
      of({{issued(0, 1, true, 5'000, 9'000)}, {issued(0, 1, false, 7'000, -1)}}));
  ASSERT_TRUE(picture);
  EXPECT_NO_THROW(check(*picture));
  EXPECT_EQ(row_of(*picture, 0), (Texts{"rank 0", "0", "4", "#0 allreduce"}));
  EXPECT_EQ(row_of(*picture, 1), (Texts{"rank 1", "2", "4", "#0 allreduce?"}));
  EXPECT_FALSE(communication_picture(of({{issued(0, 1, true)}})));
}

TEST(IndexPicture, MarksWhatWasDrawnBefore) {
  const auto picture = index_picture(of({{seen(0, "epoch", "samples", int64_values({4, 7}))},
                                         {seen(0, "epoch", "samples", int64_values({1, 4}))}}));
  ASSERT_TRUE(picture);
  EXPECT_NO_THROW(check(*picture));
  EXPECT_EQ(row_of(*picture, 1), (Texts{"rank 1", "1", "4*"}));
  EXPECT_EQ(picture->caption, "step 0, epoch: 4 draws of 3 samples, 1 more than once");
}

TEST(HeldPicture, MarksWhatIsUnlikeRankZerosWhereItIsAsked) {
  const auto history =
      of({{seen(0, "after", "w", floats({1, 2}))},
          {seen(0, "after", "w", floats({1, 3})), seen(0, "after", "b", floats({}))}});
  const auto marked = held_picture(history, {0, "after"}, Differences::marked);
  ASSERT_TRUE(marked);
  EXPECT_NO_THROW(check(*marked));
  EXPECT_EQ(row_of(*marked, 0), (Texts{"rank 0", "1 2", "not recorded by this rank"}));
  EXPECT_EQ(row_of(*marked, 1), (Texts{"rank 1", "1 3✗", "none✗"}));
  EXPECT_EQ(marked->caption, "0 of 2 records the same on every rank");
  const auto plain = held_picture(history, {0, "after"}, Differences::left_alone);
  EXPECT_EQ(row_of(*plain, 1), (Texts{"rank 1", "1 3", "none"}));
  EXPECT_FALSE(held_picture(history, {1, "after"}, Differences::marked));
}

TEST(SeriesPicture, IsOneElementOverTheMoments) {
  std::vector<std::vector<Event>> events(2);
  for (int step = 0; step < 3; ++step)
    for (int rank = 0; rank < 2; ++rank)
      events[static_cast<size_t>(rank)].push_back(
          seen(step, "after", "bn.running_mean",
               floats({0, static_cast<float>(step == 2 && rank == 1 ? 9 : step)})));
  const auto history = of(events);
  const auto picture = series_picture(history, "bn.running_mean", 1);
  ASSERT_TRUE(picture);
  EXPECT_NO_THROW(check(*picture));
  EXPECT_EQ(row_of(*picture, 2), (Texts{"2 after", "2", "9"}));
  EXPECT_EQ(picture->caption, "ranks differ at 1 of 3 moments");
  EXPECT_FALSE(series_picture(history, "other", 0));
}

TEST(DivergencePicture, IsTheTableOfTheFinding) {
  const auto picture = divergence_picture(samples::failing().worst.findings.front());
  ASSERT_TRUE(picture);
  EXPECT_NO_THROW(check(*picture));
  const auto table = data_table(*picture);
  ASSERT_EQ(table.rows.size(), 6U);
  EXPECT_EQ(table.rows[3], (Texts{"fc.weight[0]", "reference", "0.125"}));
  EXPECT_EQ(table.rows[4], (Texts{"fc.weight[0]", "rank 0", "0.25✗"}));
  EXPECT_EQ(std::get<Bars>(picture->body).groups[0].bars[1].value, -0.5);
}

// The kinds of its columns decide, and no heading.
TEST(DivergencePicture, StaysTheSameUnderOtherHeadings) {
  auto finding = samples::failing().worst.findings.front();
  const auto before = data_table(*divergence_picture(finding));
  for (auto& detail : finding.details)
    if (auto* table = std::get_if<Table>(&detail))
      for (auto& column : table->columns) column.heading = "another  heading";
  const auto picture = divergence_picture(finding);
  ASSERT_TRUE(picture);
  EXPECT_EQ(data_table(*picture).rows, before.rows);
}

TEST(DivergencePicture, HasAGroupForEachRankWhereEachHasItsOwnReference) {
  const Comparison unlike{.row = {{0, "after"}, "w", {floats({2}), floats({7})}},
                          .expected = {floats({2}), floats({4})}};
  const auto picture = divergence_picture(equal("a rule", {unlike}).at(0));
  ASSERT_TRUE(picture);
  EXPECT_EQ(row_of(*picture, 2), (Texts{"rank 1", "reference", "4"}));
  EXPECT_EQ(row_of(*picture, 3), (Texts{"rank 1", "rank 1", "7✗"}));
}

TEST(DivergencePicture, IsNoneOfATableWithoutValues) {
  const Table ladder{.columns = {{"name", Table::Holds::name}, {"rank 0"}},
                     .rows = {{.cells = {{"#0"}, {"waits"}}}}};
  EXPECT_FALSE(divergence_picture({"a rule", "", "", "rank 1 never came", {ladder}}));
  EXPECT_FALSE(divergence_picture({"a rule", "", "", "rank 1 never came"}));
}

TEST(ShownCase, AHangLeadsWithItsLadder) {
  auto result = samples::of_kind(Result::Kind::hang);
  const auto history = hang();
  const auto pictures = pictures_of_failure(result, &history);
  ASSERT_FALSE(pictures.empty());
  EXPECT_EQ(pictures.front().title, "Which rank issued which collective");
}

TEST(ShownCase, AWrongValueLeadsWithTheValues) {
  const auto result = samples::failing();
  EXPECT_EQ(pictures_of_failure(result, nullptr).front().title,
            "Where the ranks and the reference part");
}

TEST(ShownCase, APassHasPicturesToo) {
  const auto history = of({{seen(0, "after", "w", floats({1})), issued(0, 1, true, 0, 1'000)},
                           {seen(0, "after", "w", floats({1})), issued(0, 1, true, 0, 1'000)}});
  const auto pictures = pictures_of_pass(history);
  ASSERT_EQ(pictures.size(), 2U);
  EXPECT_EQ(pictures[0].caption, "1 of 1 record the same on every rank");
}

}  // namespace
}  // namespace lockstep::reports
