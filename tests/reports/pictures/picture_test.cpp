#include "reports/pictures/picture.h"

#include "tests/reports/pictures/samples.h"

#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>

namespace lockstep::reports {
namespace {

std::string refusal(const Picture& picture) {
  try {
    check(picture);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

TEST(Picture, OfEachKindCanBeDrawn) {
  for (const auto& picture : {sample_grid(), sample_bars(), sample_lines()})
    EXPECT_EQ(refusal(picture), "");
  EXPECT_EQ(mark_count(sample_grid()), 12U);
  EXPECT_EQ(mark_count(sample_bars()), 4U);
  EXPECT_EQ(mark_count(sample_lines()), 12U);
}

TEST(Picture, WithARowOfTheWrongLengthIsRefused) {
  auto picture = sample_grid();
  std::get<Grid>(picture.body).rows[1].cells.pop_back();
  EXPECT_EQ(refusal(picture), "picture 'samples by step': row 'rank 0' has 3 cells for 4 columns");
}

TEST(Picture, WithASeriesOfTheWrongLengthIsRefused) {
  auto picture = sample_lines();
  std::get<Lines>(picture.body).series[1].values.push_back(1);
  EXPECT_EQ(refusal(picture), "picture 'running_mean': series 'rank 0' has 5 values for 4 columns");
}

TEST(Picture, WithAnInfiniteValueIsRefused) {
  auto bars = sample_bars();
  std::get<Bars>(bars.body).groups[1].bars[0].value = std::numeric_limits<double>::infinity();
  EXPECT_EQ(refusal(bars), "picture 'gradients': bar 'rank 0' has no length");
  auto lines = sample_lines();
  std::get<Lines>(lines.body).series[2].values[1] = std::numeric_limits<double>::infinity();
  EXPECT_EQ(refusal(lines), "picture 'running_mean': series 'rank 1' has an infinite value");
}

TEST(Picture, MayHave5000MarksAndNoMore) {
  auto picture = sample_grid();
  auto& grid = std::get<Grid>(picture.body);
  grid.columns = {{"", {"a", "b"}}};
  grid.rows.assign(2'500, {rank_label(0), {{"1"}, {"2"}}});
  EXPECT_EQ(refusal(picture), "");
  grid.rows.push_back(grid.rows.front());
  EXPECT_EQ(refusal(picture), "picture 'samples by step': it has 5002 marks, more than 5000");
}

TEST(Picture, WithoutMarksOrCaptionIsRefused) {
  EXPECT_EQ(refusal({.title = "empty", .caption = "nothing", .body = Bars{}}),
            "picture 'empty': it has no mark");
  auto picture = sample_bars();
  picture.caption.clear();
  EXPECT_EQ(refusal(picture), "picture 'gradients': it lacks a title or a caption");
}

TEST(Picture, ExplainsEveryMarkInItsKey) {
  auto picture = sample_grid();
  picture.key.clear();
  EXPECT_EQ(refusal(picture), "picture 'samples by step': its key does not explain the mark '*'");
}

TEST(Picture, ShowsOfItsKeyOnlyTheMarksThatItHas) {
  auto picture = sample_grid();
  picture.key.emplace_back(Mark::wrong, "never seen");
  EXPECT_EQ(key_of(picture), std::vector<std::string>{"* drawn before in this epoch"});
}

TEST(DataTable, HasEveryNumberOfThePicture) {
  const auto grid = data_table(sample_grid());
  EXPECT_EQ(grid.header, (std::vector<std::string>{"step", "epoch 0, 0", "epoch 0, 1", "epoch 1, 0",
                                                   "epoch 1, 1"}));
  EXPECT_EQ(grid.rows.at(2), (std::vector<std::string>{"rank 1", "1", "5", "5*", "2"}));
  const auto lines = data_table(sample_lines());
  EXPECT_EQ(lines.rows.at(2), (std::vector<std::string>{"2", "0.25", "0", ""}));
  const auto bars = data_table(sample_bars());
  EXPECT_EQ(bars.rows.at(3), (std::vector<std::string>{"after", "rank 0", "4✗"}));
}

TEST(DataTable, HasTheMeaningOfACellThatIsAMarkAlone) {
  auto picture = sample_grid();
  picture.key.emplace_back(Mark::filled, "caught");
  std::get<Grid>(picture.body).rows[1].cells[0] = {"", Mark::filled};
  EXPECT_EQ(data_table(picture).rows.at(1).at(1), "caught");
}

TEST(Scale, IncludesZeroAndEveryValue) {
  const auto scale = scale_of(std::get<Bars>(sample_bars().body));
  EXPECT_EQ(scale.least, -2);
  EXPECT_EQ(scale.most, 6);
  EXPECT_EQ(scale.at(0), 0.25);
  EXPECT_EQ((Scale{}.at(0)), 0);
  auto lines = std::get<Lines>(sample_lines().body);
  EXPECT_EQ(scale_of(lines).most, 0.5);
  lines.range = {-1, 2};
  EXPECT_EQ(scale_of(lines).least, -1);
  EXPECT_EQ(scale_of(lines).most, 2);
}

}  // namespace
}  // namespace lockstep::reports
