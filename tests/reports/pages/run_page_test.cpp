#include "reports/pages/run_page.h"

#include "reports/findings/text.h"
#include "reports/pages/parts.h"
#include "reports/story.h"
#include "tests/reports/parsed.h"
#include "tests/reports/samples.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace lockstep::reports {
namespace {

using samples::failing;
using samples::of_kind;
using samples::passing;
using samples::run_of;
using samples::shrunk;

// Its text, but for scripts and styles, with one blank between words.
std::string text_of(const pugi::xml_node& node) {
  std::string text;
  for (const auto& each : node.select_nodes(".//text()[not(ancestor::script or ancestor::style)]"))
    text += std::string(each.node().value()) + " ";
  return text;
}

Run every_kind() {
  std::vector<Result> results{passing(), shrunk()};
  using enum Result::Kind;
  for (const auto kind : {hang, crash, leak, flaky, inconclusive, skip})
    results.push_back(of_kind(kind));
  for (size_t i = 0; i < results.size(); ++i)
    results[i].scenario = "family.scenario" + std::to_string(i);
  auto run = run_of(results);
  run.jobs.clear();
  for (const auto& result : results)
    run.jobs.push_back({.scenario = result.scenario, .setting = result.setting, .cases = 500});
  run.settings = {results.front().setting};
  run.command = "lockstep run --seed 0x5eed42";
  return run;
}

TEST(RunPage, BeginsWithWhatWasNotChecked) {
  const auto html = run_page({.run = every_kind()});
  const auto document = parsed(html);
  EXPECT_LT(html.find("id=\"not-checked\""), html.find("id=\"failures\""));
  const auto text = text_of(document.select_node("//ul[@id='not-checked']").node());
  EXPECT_NE(text.find("Skipped 1 result"), std::string::npos) << text;
  EXPECT_NE(text.find("1 result could not be judged"), std::string::npos) << text;
}

TEST(RunPage, ShowsWhatABackendCannotBehindTheFailures) {
  auto run = every_kind();
  run.results[1].worst.findings.front().limit = "Gloo's broadcast carries no int16";
  const auto document = parsed(run_page({.run = run}));
  std::string order;
  for (const auto& each : document.select_nodes("//div[@id='list']//tbody//a"))
    order += text_of(each.node()).rbegin()[1];
  EXPECT_EQ(order, "234516");
}

TEST(RunPage, HasAllPartsOfEveryStory) {
  const auto run = every_kind();
  const auto document = parsed(run_page({.run = run}));
  EXPECT_EQ(count(document, "//article[contains(@class,'failure')]"), 6U);
  const auto text = text_of(document.select_node("//section[@id='failures']").node());
  for (const auto& result : run.results) {
    if (result.kind == Result::Kind::pass || result.kind == Result::Kind::skip) continue;
    const auto parts = story_parts(result, run.program);
    for (const auto& part : {parts.rule, parts.diagnosis, parts.replay, parts.read, parts.logs})
      EXPECT_NE(text.find(part), std::string::npos) << part;
    const auto shown = result.worst.findings.empty()
                           ? std::vector<std::string>()
                           : lines_of(result.worst.findings.front().details);
    for (const auto& lines : {parts.smallest_case, shown, parts.evidence})
      for (const auto& line : lines) EXPECT_NE(text.find(line), std::string::npos) << line;
  }
}

TEST(RunPage, OfARecordedRunSaysWhereToReadOnAndWhatIsRemarkedOnResultsThatHold) {
  auto failed = of_kind(Result::Kind::fail), held = passing();
  failed.failure.reset();
  failed.setting.tier = held.setting.tier = "recorded";
  held.remarks = {{"", "one_seed", "", "all ranks draw the same numbers"}};
  const auto document = parsed(run_page({.run = run_of({failed, held})}));
  EXPECT_EQ(count(document, "//article//h4[text()='Read on']"), 1U);
  EXPECT_NE(text_of(document.select_node("//ul[@id='remarks']").node())
                .find(held.scenario + ": all ranks draw the same numbers"),
            std::string::npos);
  EXPECT_EQ(count(parsed(run_page({.run = every_kind()})), "//ul[@id='remarks']"), 0U);
}

TEST(RunPage, OpensTheFailuresPictureAndNumbersEachOnce) {
  const auto document = parsed(run_page({.run = every_kind()}));
  EXPECT_GE(count(document, "//article[contains(@class,'failure')]//svg"), 1U);
  EXPECT_EQ(count(document, "//details[summary/h3]"), 6U);
  EXPECT_EQ(count(document, "//details[summary/h3][@open]"), 1U);
  EXPECT_EQ(count(document, "(//details[summary/h3])[1][@open]"), 1U);
  std::set<std::string> ids;
  for (const auto& node : document.select_nodes("//*[@id]"))
    EXPECT_TRUE(ids.insert(node.node().attribute("id").value()).second)
        << node.node().attribute("id").value();
}

TEST(RunPage, ListsWhatDoesNotHoldBeforeAnyStoryAndLinksEach) {
  const auto document = parsed(run_page({.run = every_kind()}));
  const auto links = document.select_nodes("//section[@id='verdict']//div[@id='list']//a");
  EXPECT_EQ(links.size(), 6U);
  for (const auto& link : links) {
    const auto target = std::string(link.node().attribute("href").value()).substr(1);
    EXPECT_EQ(count(document, ("//section[@id='failures']//*[@id='" + target + "']").c_str()), 1U)
        << target;
  }
  EXPECT_EQ(count(parsed(run_page({.run = run_of({passing()})})), "//div[@id='list']"), 0U);
}

TEST(RunPage, CountsAScenarioOnceInHoweverManySettings) {
  auto cold = passing();
  cold.setting.tier = "cold";
  auto run = run_of({passing(), cold});
  run.settings = {passing().setting, cold.setting};
  const auto text =
      text_of(parsed(run_page({.run = run})).select_node("//*[@id='verdict']").node());
  EXPECT_NE(text.find("1 scenario, 2 results: 2 passed"), std::string::npos) << text;
}

TEST(RunPage, FoldsSkipsByTheirReasons) {
  std::vector<Result> results;
  for (const char* reason : {"no GPU", "has no join", "no GPU"}) {
    results.push_back(of_kind(Result::Kind::skip));
    results.back().scenario += std::to_string(results.size());
    results.back().refused = {{reason, 3}, {"another one", 1}};
  }
  const auto all = not_checked(run_of(results));
  const auto skips = std::find_if(all.begin(), all.end(), [](const auto& each) {
    return each.sentence.starts_with("Skipped");
  });
  ASSERT_NE(skips, all.end());
  EXPECT_EQ(skips->sentence, "Skipped 3 results, for 2 reasons");
  EXPECT_EQ(skips->reasons, (std::vector<std::string>{"2: no GPU", "1: has no join"}));
  const auto document = parsed(run_page({.run = run_of(results)}));
  EXPECT_EQ(count(document, "//ul[@id='not-checked']//details//li"), 2U);
  const auto heading = text_of(document.select_node("//p[@class='finding']").node());
  EXPECT_EQ(heading.find("no GPU"), std::string::npos) << heading;
}

TEST(RunPage, HasACellForEachScenarioAndSetting) {
  const auto run = every_kind();
  const auto document = parsed(run_page({.run = run}));
  EXPECT_EQ(count(document, "//section[@id='results']//td"), run.results.size());
  for (const auto& result : run.results) {
    const auto cell =
        document.select_node(("//tr[@data-scenario='" + result.scenario + "']/td").c_str()).node();
    EXPECT_EQ(cell.attribute("data-result").value(), std::string(name_of(result.kind)));
    EXPECT_EQ(cell.attribute("data-judged").as_llong(), result.judged);
  }
}

TEST(RunPage, ShowsHistoriesOfPassesToo) {
  RunPage page{.run = run_of({passing()})};
  RankHistory rank;
  rank.events.push_back({{0, "epoch"}, Observation{"samples", int64_values({3, 1})}});
  page.cases.push_back({.c = {passing().scenario, {}}, .history = History({rank, rank})});
  const auto document = parsed(run_page(page));
  const auto text = text_of(document.select_node("//section[@id='histories']").node());
  EXPECT_NE(text.find("4 draws of 2 samples, 2 more than once"), std::string::npos) << text;
  EXPECT_EQ(count(document, "//section[@id='histories']//svg"), 1U);
}

// The rows of the section's table, each as one text.
std::vector<std::string> faults_on(const RunPage& page) {
  const auto document = parsed(run_page(page));
  std::vector<std::string> rows;
  for (const auto& row : document.select_nodes("//section[@id='faults']//tbody/tr"))
    rows.push_back(text_of(row.node()));
  return rows;
}

TEST(RunPage, HasWhatEscapedBeforeWhatWasCaught) {
  RankHistory killed, left;
  killed.events.push_back({{0, "forward"}, Injection{.kind = InjectionKind::kill, .rank = 0}});
  left.events.push_back({{0, "forward"}, Injection{.kind = InjectionKind::delay, .rank = 1}});
  const History history({killed, left});
  RunPage page{.run = every_kind()};
  page.cases = {{.c = {"family.holds", Json::object()}, .holds = true, .history = history},
                {.c = {"family.fails", Json::object()}, .holds = false, .history = history}};
  page.run.canary = Run::Canary::failed;
  auto rows = faults_on(page);
  ASSERT_EQ(rows.size(), 5U);
  EXPECT_TRUE(rows[0].starts_with("delay family.fails")) << rows[0];
  EXPECT_NE(rows[1].find("1 ✗ the claim does not hold"), std::string::npos) << rows[1];
  EXPECT_NE(rows[3].find("kill family.holds"), std::string::npos) << rows[3];
  EXPECT_NE(rows[4].find("✓ caught"), std::string::npos) << rows[4];
  page.run.canary = Run::Canary::passed;
  rows = faults_on(page);
  EXPECT_NE(rows[0].find("✗ escaped"), std::string::npos) << rows[0];
}

TEST(RunPage, RequestsNothingAndHasOneSmallScript) {
  const auto html = run_page({.run = every_kind()});
  const auto document = parsed(html);
  EXPECT_EQ(count(document, "//script"), 1U);
  EXPECT_EQ(
      count(document, "//link | //img | //iframe | //object | //@src | //@style | //@onclick"), 0U);
  for (const auto& link : document.select_nodes("//a"))
    EXPECT_EQ(std::string(link.node().attribute("href").value()).front(), '#');
  EXPECT_LT(run_page_script().size(), 20'000U);
  EXPECT_EQ(run_page_script().find("http"), std::string::npos);
}

TEST(RunPage, EscapesHostileNamesEverywhere) {
  constexpr char kHostile[] = "</pre><script>alert(1)</script>&'\"<!--\x1b\xff\u202e";
  auto result = shrunk();
  result.scenario = result.claim = result.exactness = result.setting.subject = kHostile;
  for (auto& finding : result.worst.findings)
    finding = {kHostile,
               kHostile,
               kHostile,
               kHostile,
               {kHostile, Table{.columns = {{kHostile, Table::Holds::name},
                                            {kHostile, Table::Holds::reference},
                                            {kHostile, Table::Holds::value}},
                                .rows = {{.cells = {{kHostile}, {kHostile, 1}, {kHostile, 2, true}},
                                          .mark = Table::Mark::first}}}}};
  result.failure->case_file = result.failure->logs = kHostile;
  result.failure->tail = result.failure->stack = kHostile;
  result.failure->call_sites = {kHostile};
  auto run = run_of({result, of_kind(Result::Kind::skip)});
  run.program = run.command = run.version = run.libtorch = kHostile;
  run.folder = kHostile;
  run.jobs = {{.scenario = kHostile, .setting = result.setting, .cases = 1}};
  run.settings = {result.setting};
  run.not_finished = {{kHostile, {}, kHostile}};
  run.slowest = {{kHostile, result.setting, 1, {}}};
  const auto html = run_page({.run = run});
  const auto document = parsed(html);
  EXPECT_EQ(count(document, "//script"), 1U);
  for (const char* raw : {"\x1b", "\xff", "\u202e", "<!--", "alert(1)</script>"})
    EXPECT_EQ(html.find(raw), std::string::npos) << raw;
}

TEST(RunPage, SaysThatAllWasCheckedOnlyWhereItWas) {
  auto run = run_of({passing()});
  run.jobs = {{.scenario = passing().scenario, .setting = {}, .cases = 400, .pairs = {12, 12}}};
  run.canary = Run::Canary::failed;
  EXPECT_EQ(not_checked(run), std::vector<NotChecked>{{"Nothing: every case was judged."}});
  run.jobs[0].cases = 401;
  EXPECT_EQ(not_checked(run), std::vector<NotChecked>{{"Of 401 cases 1 was not judged."}});
  run.canary = Run::Canary::not_run;
  EXPECT_EQ(not_checked(run).size(), 2U);
}

}  // namespace
}  // namespace lockstep::reports
