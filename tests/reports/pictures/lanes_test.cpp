#include "reports/pictures/lanes.h"

#include "reports/pictures/svg.h"
#include "reports/pictures/text.h"
#include "tests/reports/pictures/samples.h"

#include <gtest/gtest.h>
#include <pugixml.hpp>

#include <cmath>
#include <stdexcept>

namespace lockstep::reports {
namespace {

TEST(LanesText, SpansThatOverlapStandBelowEachOther) {
  EXPECT_EQ(text_of(sample_lanes(), {.unicode = false, .columns = 40}),
            "communication\n"
            "  microseconds  0                    100\n"
            "  rank 0        [###0###]\n"
            "                    [####1###]\n"
            "  rank 1          [?????????#0?????????]\n"
            "  ? never done\n"
            "  -> rank 1 waits for rank 0\n");
}

TEST(LanesText, IsNoWiderThanTheTerminal) {
  for (const size_t columns : {30U, 40U, 80U})
    for (const auto& line : {text_of(sample_lanes(), {.columns = columns})})
      for (size_t begin = 0; begin < line.size();) {
        const auto end = line.find('\n', begin);
        EXPECT_LE(width(line.substr(begin, end - begin)), columns) << line;
        begin = end + 1;
      }
}

TEST(LanesSvg, ASpanIsABoxFromItsBeginToItsEnd) {
  pugi::xml_document document;
  ASSERT_TRUE(document.load_string(svg_of(sample_lanes(), 1).c_str()));
  const auto boxes = document.select_nodes("//rect");
  ASSERT_EQ(boxes.size(), 3U);
  const auto x = [&](size_t box) { return boxes[box].node().attribute("x").as_double(); };
  const auto wide = [&](size_t box) { return boxes[box].node().attribute("width").as_double(); };
  const double all = wide(2) / 0.9;
  EXPECT_GT(all, 400);
  EXPECT_NEAR(wide(0), 0.4 * all, 0.01);
  EXPECT_NEAR(x(1) - x(0), 0.2 * all, 0.01);
  EXPECT_NE(boxes[0].node().attribute("y").as_double(), boxes[1].node().attribute("y").as_double());
  EXPECT_STREQ(boxes[2].node().attribute("class").value(), "cell rank1 dotted");
}

TEST(LanesSvg, LongTimesAreWholeNumbers) {
  auto picture = sample_lanes();
  std::get<Lanes>(picture.body).lanes[0].spans[0].to = 4608;
  const auto svg = svg_of(picture, 1);
  EXPECT_NE(svg.find(">2,000<"), std::string::npos) << svg;
  EXPECT_EQ(svg.find("e+"), std::string::npos);
}

TEST(LanesSvg, TicksAreRoundNumbers) {
  EXPECT_EQ(ticks_of({0, 1495}, 4), (std::vector<double>{0, 500, 1000}));
  EXPECT_EQ(ticks_of({0, 40}, 8), (std::vector<double>{0, 5, 10, 15, 20, 25, 30, 35, 40}));
  EXPECT_EQ(ticks_of({3, 3}, 8), std::vector<double>{3});
}

// One span from 0 to 100, in two parts.
Picture span_of_parts(double border) {
  auto picture = sample_lanes();
  auto& lanes = std::get<Lanes>(picture.body).lanes;
  lanes.resize(1);
  lanes[0].spans = {{0, border, "#4", Mark::filled}, {border, 100, "#4", Mark::missing}};
  picture.key.emplace_back(Mark::filled, "hidden");
  return picture;
}

TEST(LanesText, PartsOfOneSpanHaveOneNameAndMarksOfTheirOwn) {
  const auto picture = span_of_parts(50);
  const auto text = text_of(picture, {.unicode = false, .columns = 40});
  EXPECT_NE(text.find("[oooooooooo#4?"), std::string::npos) << text;
  const auto svg = svg_of(picture, 1);
  EXPECT_EQ(svg.find(">#4"), svg.rfind(">#4")) << svg;
}

TEST(LanesSvg, TheTextOfASpanOfPartsIsInItsLongestPart) {
  pugi::xml_document document;
  ASSERT_TRUE(document.load_string(svg_of(span_of_parts(40), 1).c_str()));
  const auto text = document.select_node("//text[. = '#4?']").node();
  const auto part = document.select_nodes("//rect")[1].node();
  ASSERT_TRUE(text);
  EXPECT_NEAR(text.attribute("x").as_double(),
              part.attribute("x").as_double() + part.attribute("width").as_double() / 2, 0.1);
}

TEST(LanesText, ASpanStandsInItsOwnRow) {
  Lanes::Lane lane{{"way"}, {{0, 10, "a"}, {20, 30, "b", Mark::plain, 1}, {40, 50, "c"}}};
  const auto rows = rows_of(lane);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].size(), 2U);
  EXPECT_EQ(rows[1].front().text, "b");
}

TEST(LanesTable, HasEverySpan) {
  const auto table = data_table(sample_lanes());
  ASSERT_EQ(table.rows.size(), 3U);
  EXPECT_EQ(table.rows[1], (std::vector<std::string>{"rank 0", "20", "60", "#1"}));
  EXPECT_EQ(table.rows[2], (std::vector<std::string>{"rank 1", "10", "100", "#0?"}));
}

TEST(LanesCheck, ASpanThatEndsBeforeItBeginsIsRefused) {
  auto picture = sample_lanes();
  std::get<Lanes>(picture.body).lanes[0].spans[0].to = -1;
  EXPECT_THROW(check(picture), std::invalid_argument);
  std::get<Lanes>(picture.body).lanes[0].spans[0].to = INFINITY;
  EXPECT_THROW(check(picture), std::invalid_argument);
}

}  // namespace
}  // namespace lockstep::reports
