#include "reports/pictures/text.h"

#include "harness/base/text.h"
#include "tests/reports/pictures/samples.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace lockstep::reports {
namespace {

bool is_ascii(const std::string& text) {
  return std::all_of(text.begin(), text.end(),
                     [](char letter) { return static_cast<unsigned char>(letter) < 0x80; });
}

size_t widest_line(const std::string& text) {
  size_t widest = 0;
  for (const auto& line : split(text, '\n')) widest = std::max(widest, width(line));
  return widest;
}

std::string without_colour(const std::string& text) {
  std::string out;
  for (size_t at = 0; at < text.size(); ++at)
    if (text[at] == '\033')
      at = text.find('m', at);
    else
      out += text[at];
  return out;
}

TEST(PictureText, OfAGridPutsGroupsSideBySide) {
  EXPECT_EQ(text_of(sample_grid(), {.columns = 80}),
            "samples by step\n"
            "               epoch 0   │  epoch 1\n"
            "  step           0    1  │   0    1\n"
            "  one process  4 1  7 5  │   5  6 2\n"
            "  rank 0         4    7  │   5    6\n"
            "  rank 1         1    5  │  5*    2\n"
            "  * drawn before in this epoch\n"
            "  → 10 of 10 samples are drawn, 1 twice\n");
}

TEST(PictureText, OfAGridContinuesBelowWhereItIsTooWide) {
  auto picture = sample_grid();
  auto& grid = std::get<Grid>(picture.body);
  for (auto& group : grid.columns)
    for (int column = 2; column < 40; ++column) group.names.push_back(std::to_string(column));
  for (auto& row : grid.rows) row.cells.assign(80, {"10"});
  for (auto& row : grid.rows) row.cells.back() = {"99"};
  picture.key.clear();
  const auto text = text_of(picture, {.columns = 80});
  EXPECT_LE(widest_line(text), 80U);
  size_t last_cells = 0;
  for (size_t at = text.find("99"); at != std::string::npos; at = text.find("99", at + 2))
    ++last_cells;
  EXPECT_EQ(last_cells, 3U) << text;
  EXPECT_NE(text.find("epoch 1"), std::string::npos);
}

TEST(PictureText, OfBarsHasOneZeroForAllGroups) {
  EXPECT_EQ(text_of(sample_bars(), {.columns = 48}),
            "gradients\n"
            "  gradient\n"
            "  one process          ███████████ 3\n"
            "  before\n"
            "  rank 0       ████████ -2\n"
            "  rank 1               ██████████████████████ 6\n"
            "  after\n"
            "  rank 0               ▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒ 4✗\n"
            "  ✗ not what one process has\n"
            "  → the average of averages is 4, one process\n"
            "    has 3\n");
}

TEST(PictureText, OfLinesMarksEachSeriesByItsRank) {
  const auto text = text_of(sample_lines(), {.columns = 80});
  EXPECT_NE(text.find("  0.5 │         1               1\n"), std::string::npos) << text;
  EXPECT_NE(text.find("= one process   0 rank 0   1 rank 1   & several\n"), std::string::npos);
}

TEST(PictureText, WithoutUnicodeIsAscii) {
  for (const auto& picture : {sample_grid(), sample_bars(), sample_lines()})
    EXPECT_TRUE(is_ascii(text_of(picture, {.unicode = false, .columns = 80})));
}

TEST(PictureText, FitsTheTerminal) {
  for (const auto& picture : {sample_grid(), sample_bars(), sample_lines()})
    for (const size_t columns : {size_t{40}, size_t{80}})
      EXPECT_LE(widest_line(text_of(picture, {.columns = columns})), columns);
}

TEST(PictureText, OfAGridHasAColumnABlockWhereTheTerminalIsNarrowerThanItsLabels) {
  for (size_t columns = 1; columns <= 16; ++columns)
    EXPECT_LE(widest_line(text_of(sample_grid(), {.columns = columns})), 24U) << columns;
}

TEST(PictureText, InColourIsTheSameText) {
  for (const auto& picture : {sample_grid(), sample_bars(), sample_lines()}) {
    const auto coloured = text_of(picture, {.colour = true, .columns = 80});
    EXPECT_NE(coloured.find("\033["), std::string::npos);
    EXPECT_EQ(without_colour(coloured), text_of(picture, {.columns = 80}));
  }
}

TEST(PictureText, SpellsOutWhatMovesTheCursor) {
  auto picture = sample_grid();
  std::get<Grid>(picture.body).rows[1].label.text = "rank\x1b[2J";
  picture.caption = "a\x1b]0;b";
  EXPECT_EQ(text_of(picture, {.columns = 80}).find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace lockstep::reports
