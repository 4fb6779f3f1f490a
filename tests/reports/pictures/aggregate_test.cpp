#include "reports/pictures/aggregate.h"

#include "reports/pictures/svg.h"
#include "tests/reports/pictures/samples.h"

#include <gtest/gtest.h>

#include <cmath>

namespace lockstep::reports {
namespace {

Picture grid_of(size_t rows, size_t columns) {
  Grid grid{.column_axis = "step", .columns = {{"", {}}}, .rows = {}};
  for (size_t column = 0; column < columns; ++column)
    grid.columns[0].names.push_back(std::to_string(column));
  for (size_t row = 0; row < rows; ++row)
    grid.rows.push_back({rank_label(static_cast<int>(row)), std::vector<Cell>(columns, {"1"})});
  return {.title = "grid",
          .caption = "a finding",
          .body = std::move(grid),
          .key = {{Mark::wrong, "wrong"}, {Mark::repeated, "repeated"}}};
}

// It can be drawn, and is no larger than it must be.
void expect_drawn(const Picture& picture, size_t least) {
  EXPECT_LE(mark_count(picture), kMarksMost);
  EXPECT_GE(mark_count(picture), least);
  EXPECT_NO_THROW(svg_of(picture, 1));
}

TEST(Aggregate, ASmallPictureStaysAsItIs) {
  for (const auto& picture : {sample_grid(), sample_bars(), sample_lines(), sample_lanes()}) {
    const auto same = within_marks(picture);
    EXPECT_EQ(same.caption, picture.caption);
    EXPECT_EQ(svg_of(same, 1), svg_of(picture, 1));
  }
}

TEST(Aggregate, AGridOfTooManyCellsHasTheWorstMarkOfNeighbours) {
  auto picture = grid_of(4, 5'000);
  std::get<Grid>(picture.body).rows[2].cells[4'999] = {"9", Mark::wrong};
  std::get<Grid>(picture.body).rows[2].cells[4'998] = {"8", Mark::repeated};
  const auto fewer = within_marks(picture);
  expect_drawn(fewer, 4'000);
  const auto& grid = std::get<Grid>(fewer.body);
  EXPECT_EQ(grid.columns[0].names.back(), "4996-4999");
  EXPECT_EQ(grid.rows[2].cells.back().mark, Mark::wrong);
  EXPECT_EQ(grid.rows[2].cells.back().text, "2 of 4");
  EXPECT_EQ(grid.rows[1].cells.back().text, "1");
  EXPECT_EQ(fewer.caption, "a finding; of 20,000 marks, 4 neighbours are drawn as one");
}

TEST(Aggregate, AGridOfManyRanksHasFewerRows) {
  auto picture = grid_of(1'024, 12);
  std::get<Grid>(picture.body).rows[1'023].cells[3].mark = Mark::wrong;
  const auto fewer = within_marks(picture);
  expect_drawn(fewer, 1'000);
  EXPECT_EQ(std::get<Grid>(fewer.body).rows.back().label.text, "rank 1023");
  EXPECT_EQ(std::get<Grid>(fewer.body).rows.front().label.text, "rank 0-rank 2");
  EXPECT_EQ(data_table(fewer).rows.back().back().substr(0, 1), "1");
}

TEST(Aggregate, BarsKeepTheLargestValue) {
  Bars bars{.value_axis = "value", .groups = {}};
  for (int group = 0; group < 1'000; ++group) {
    auto& one = bars.groups.emplace_back(Bars::Group{"w" + std::to_string(group), {}});
    for (int rank = 0; rank < 8; ++rank) one.bars.push_back({rank_label(rank), 1.0, "1"});
  }
  bars.groups[999].bars[7] = {rank_label(7), -70, "-70", Mark::wrong};
  const auto fewer = within_marks({.title = "bars",
                                   .caption = "a finding",
                                   .body = std::move(bars),
                                   .key = {{Mark::wrong, "wrong"}}});
  expect_drawn(fewer, 4'000);
  const auto& last = std::get<Bars>(fewer.body).groups[0].bars.back();
  EXPECT_EQ(last.value, -70);
  EXPECT_EQ(last.mark, Mark::wrong);
  EXPECT_EQ(last.text, "-70 (largest of 2)");
  EXPECT_EQ(last.label.text, "w999, rank 6-w999, rank 7");
}

TEST(Aggregate, LinesOfManyColumnsHaveAverages) {
  Lines lines{.column_axis = "step", .value_axis = "loss", .columns = {}, .series = {}};
  lines.series.push_back({rank_label(0), {}});
  for (int step = 0; step < 120; ++step) {
    lines.columns.push_back(std::to_string(step));
    lines.series[0].values.push_back(step == 1 ? std::nan("") : step);
  }
  const auto fewer =
      within_marks({.title = "lines", .caption = "a finding", .body = std::move(lines)});
  const auto& drawn = std::get<Lines>(fewer.body);
  EXPECT_EQ(drawn.columns.size(), 60U);
  EXPECT_EQ(drawn.columns[59], "118-119");
  EXPECT_EQ(drawn.series[0].values[0], 0);  // the other one is none
  EXPECT_EQ(drawn.series[0].values[59], 118.5);
  EXPECT_NO_THROW(check(fewer));
}

TEST(Aggregate, LinesOfManyRanksAreFewer) {
  Lines lines{.column_axis = "step", .value_axis = "loss", .columns = {}, .series = {}};
  lines.columns = {"0", "1", "2"};
  for (int rank = 0; rank < 6'000; ++rank) lines.series.push_back({rank_label(rank), {1, 2, 3}});
  expect_drawn(within_marks({.title = "lines", .caption = "a finding", .body = std::move(lines)}),
               2'000);
}

TEST(Aggregate, LanesKeepTheirBeginTheirEndAndTheirMarks) {
  Lanes lanes{.time_axis = "microseconds", .lanes = {}};
  for (int rank = 0; rank < 2; ++rank) {
    auto& lane = lanes.lanes.emplace_back(Lanes::Lane{rank_label(rank), {}});
    for (int span = 0; span < 10'000; ++span)
      lane.spans.push_back({span * 2.0, span * 2.0 + 1, "allreduce"});
  }
  lanes.lanes[1].spans.back().mark = Mark::missing;
  const auto fewer = within_marks({.title = "lanes",
                                   .caption = "a finding",
                                   .body = std::move(lanes),
                                   .key = {{Mark::missing, "never done"}}});
  expect_drawn(fewer, 3'000);
  const auto& last = std::get<Lanes>(fewer.body).lanes[1].spans.back();
  EXPECT_EQ(last.to, 19'999);
  EXPECT_EQ(last.mark, Mark::missing);
}

}  // namespace
}  // namespace lockstep::reports
