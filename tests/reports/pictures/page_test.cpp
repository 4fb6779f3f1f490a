#include "reports/pictures/page.h"

#include "reports/pictures/markup.h"
#include "reports/pictures/svg.h"
#include "tests/reports/parsed.h"
#include "tests/reports/pictures/samples.h"

#include <gtest/gtest.h>

#include <limits>
#include <set>
#include <stdexcept>

namespace lockstep::reports {
namespace {

constexpr char kHostile[] = "</svg><script>alert(\"1\")</script>&'<!--\x1b\xff\u202e";

Page sample_page() {
  return {.title = "lockstep demo sampler",
          .finding = "10 of 10 samples are drawn",
          .text = "A sampler deals samples.",
          .pictures = {sample_grid(), sample_bars(), sample_lines()},
          .story = {"✗ Every rank must", "  rank 1: 2 < 3"},
          .settings = {{"setting", "value"}, {{"world", "2"}}},
          .command = "lockstep demo sampler --set world=2"};
}

TEST(Page, HasEveryPictureWithItsTitleDescriptionAndNumbers) {
  const auto document = parsed(page(sample_page()));
  EXPECT_EQ(count(document, "//figure[.//svg[@role='img']]"), 3U);
  EXPECT_EQ(count(document, "//svg[not(title and desc)]"), 0U);
  EXPECT_EQ(count(document, "//details/summary"), 3U);
  EXPECT_EQ(count(document, "//details//table"), 3U);
  EXPECT_STREQ(document.select_node("(//figcaption)[2]").node().child_value(),
               "the average of averages is 4, one process has 3");
}

TEST(Page, NamesEachPictureByIdsThatAreThere) {
  const auto document = parsed(page(sample_page()));
  std::set<std::string> ids;
  for (const auto& node : document.select_nodes("//*[@id]"))
    EXPECT_TRUE(ids.insert(node.node().attribute("id").value()).second);
  for (const auto& node : document.select_nodes("//svg")) {
    const std::string labelled = node.node().attribute("aria-labelledby").value();
    const auto blank = labelled.find(' ');
    EXPECT_TRUE(ids.contains(labelled.substr(0, blank)) &&
                ids.contains(labelled.substr(blank + 1)));
  }
}

TEST(Page, RequestsNothingAndRunsNothing) {
  const auto document = parsed(page(sample_page()));
  EXPECT_EQ(count(document,
                  "//script | //link | //img | //iframe | //object | //@src | //@href | //@style"),
            0U);
  EXPECT_EQ(page(sample_page()).find("url("), std::string::npos);
}

TEST(Page, CanBeReadWithAKeyboardInTheDarkAndOnPaper) {
  const auto html = page(sample_page());
  const auto document = parsed(html);
  EXPECT_EQ(count(document, "//div[@class='scroll' and not(@tabindex='0' and @aria-label)]"), 0U);
  for (const char* rule : {"prefers-color-scheme: dark", "prefers-reduced-motion", "@media print"})
    EXPECT_NE(html.find(rule), std::string::npos) << rule;
}

TEST(Page, EscapesHostileNamesEverywhere) {
  auto hostile = sample_page();
  hostile.title = hostile.finding = hostile.text = hostile.command = kHostile;
  hostile.story = {kHostile};
  hostile.settings = {{kHostile}, {{kHostile}}};
  for (auto& picture : hostile.pictures) picture.title = picture.caption = kHostile;
  auto& grid = std::get<Grid>(hostile.pictures[0].body);
  grid.column_axis = grid.columns[0].title = grid.columns[0].names[0] = kHostile;
  grid.rows[0].label.text = grid.rows[0].cells[0].text = kHostile;
  hostile.pictures[0].key[0].second = kHostile;
  auto& bars = std::get<Bars>(hostile.pictures[1].body);
  bars.value_axis = bars.groups[1].title = bars.groups[1].bars[0].text = kHostile;
  bars.groups[1].bars[0].label.text = kHostile;
  auto& lines = std::get<Lines>(hostile.pictures[2].body);
  lines.column_axis = lines.value_axis = lines.columns[0] = lines.series[0].label.text = kHostile;
  const auto html = page(hostile);
  const auto document = parsed(html);
  EXPECT_EQ(count(document, "//script"), 0U);
  EXPECT_EQ(count(document, "//figure"), 3U);
  for (const char* raw : {"\x1b", "\xff", "\u202e", "<!--"})
    EXPECT_EQ(html.find(raw), std::string::npos);
}

// A class for each room, on one drawing alone.
TEST(Page, HasADrawingOfEachPictureForEachRoom) {
  const auto document = parsed(page(sample_page()));
  for (const std::string room : {"narrow", "middle", "wide"})
    EXPECT_EQ(
        count(document, ("//div[@class='drawings']/div[contains(concat(' ', @class, ' '), ' " +
                         room + " ')]/svg")
                            .c_str()),
        3U)
        << room;
}

TEST(Page, DrawsNoPictureWiderThanItsRoom) {
  auto many = sample_grid();
  auto& grid = std::get<Grid>(many.body);
  for (auto& group : grid.columns)
    for (int column = 2; column < 20; ++column) group.names.push_back(std::to_string(column));
  for (auto& row : grid.rows) row.cells.assign(40, {"0.4375"});
  many.key.clear();
  for (const auto& picture : {sample_grid(), sample_bars(), sample_lines(), sample_lanes(), many})
    for (const double room : {310.0, 440.0, 660.0}) {
      const auto document = parsed(svg_of(picture, 1, room));
      const auto svg = document.child("svg");
      const double wide = svg.attribute("width").as_double();
      EXPECT_LE(wide, room) << picture.title;
      for (const auto& box : document.select_nodes("//rect"))
        EXPECT_LE(box.node().attribute("x").as_double() + box.node().attribute("width").as_double(),
                  wide)
            << picture.title;
    }
}

// Where level names would break the columns into several blocks.
TEST(Page, NamesOfNarrowColumnsRunUpwardsWhereThatKeepsThemTogether) {
  auto picture = sample_grid();
  std::get<Grid>(picture.body).columns = {
      {"", {"every sample", "one process", "agree", "weights"}}};
  const auto turned = [&](double room) {
    return count(parsed(svg_of(picture, 1, room)), "//text[@transform]");
  };
  EXPECT_EQ(turned(660), 0U);
  EXPECT_EQ(turned(310), 4U);
}

TEST(Page, PutsPicturesThatAreComparedSideBySide) {
  auto compared = sample_page();
  compared.pictures[2].is_beside = true;
  const auto document = parsed(page(compared));
  EXPECT_EQ(count(document, "//div[@class='beside']"), 1U);
  EXPECT_EQ(count(document, "//div[@class='beside']/section"), 2U);
}

TEST(Page, OfSeveralRunsHasAllOfThemAndASwitch) {
  auto several = sample_page();
  several.name = "without a mistake";
  several.others = {{.name = "set_epoch_forgotten",
                     .text = "Planted: a mistake.",
                     .finding = "every epoch has the same order",
                     .pictures = {sample_bars()},
                     .command = "lockstep demo sampler --wrong set_epoch_forgotten"}};
  several.next = {{"lockstep demo average", "averages", "average.html"},
                  {"lockstep run", "proves"}};
  const auto document = parsed(page(several));
  EXPECT_EQ(count(document, "//article//figure"), 4U);
  EXPECT_EQ(count(document, "//script"), 1U);
  EXPECT_EQ(count(document, "//section[@id='next']//a[@href='average.html']"), 1U);
  EXPECT_EQ(count(document, "//section[@id='next']//dt"), 2U);
}

TEST(Page, OfAnIndexLinksEachPage) {
  const auto document =
      parsed(page(Index{.title = "All",
                        .text = "",
                        .groups = {{"First", {{"sampler", "sampler.html", "deals", "x"}}}}}));
  EXPECT_EQ(count(document, "//a[@href='sampler.html']"), 1U);
}

TEST(Page, DistinguishesRanksByShapeToo) {
  std::set<std::string> shapes;
  auto picture = sample_lines();
  auto& lines = std::get<Lines>(picture.body);
  lines.series.resize(1);
  for (int rank = 0; rank < 5; ++rank) {
    lines.series[0] = {rank_label(rank), {0, 0, 0, 0}};
    const auto document = parsed(svg_of(picture, 1));
    const auto shape = document.select_node("(//*[starts-with(@class,'shape')])[last()]").node();
    const auto corners = std::string(shape.attribute("points").value());
    shapes.insert(shape.name() + corners);
  }
  EXPECT_EQ(shapes.size(), 5U);
}

// One beside its value, and one at its label.
TEST(Page, AValueToWhichNoLineLeadsHasAPoint) {
  auto picture = sample_lines();
  auto& lines = std::get<Lines>(picture.body);
  const auto points = [&] {
    const auto svg = svg_of(picture, 1);
    size_t count = 0;
    for (size_t at = 0; (at = svg.find("\"point\"", at)) != std::string::npos; ++at) ++count;
    return count;
  };
  EXPECT_EQ(points(), 0U);
  std::vector<double> values(lines.columns.size(), std::numeric_limits<double>::quiet_NaN());
  values[1] = 2;
  lines.series.push_back({{"published"}, values});
  EXPECT_EQ(points(), 2U);
}

TEST(Page, WithAPictureThatCannotBeDrawnIsRefused) {
  auto broken = sample_page();
  broken.pictures[0].caption.clear();
  EXPECT_THROW(page(broken), std::invalid_argument);
}

TEST(Markup, RefusesToEndBeforeItsElements) {
  Markup markup;
  EXPECT_THROW(markup.close(), std::logic_error);
  markup.open("p");
  EXPECT_THROW(markup.take(), std::logic_error);
  EXPECT_EQ(markup.close().take(), "<p></p>\n");
}

}  // namespace
}  // namespace lockstep::reports
