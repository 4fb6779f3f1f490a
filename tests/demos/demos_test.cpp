// Every demonstration in simulated worlds: what it says of its history, that its checks hold, and
// that they do not with each of its mistakes.
#include "demos/catalogue.h"
#include "harness/core/text.h"
#include "harness/worlds/about.h"
#include "harness/worlds/tiers.h"
#include "reports/pictures/page.h"
#include "reports/pictures/text.h"
#include "scenarios/subjects/subjects.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace lockstep {
namespace {

const Demo& demo_named(const std::string& name) {
  static const auto all = demonstrations();
  return *std::find_if(all.begin(), all.end(), [&](const Demo& demo) { return demo.name == name; });
}

// Made before the first test plays anything, since it forks.
Tier& lane() {
  static const auto lanes = [] {
    std::vector<Scenario> scenarios;
    for (const auto& demo : demonstrations()) scenarios.push_back(demo.scenario);
    auto made = forked_lanes(SingleThreaded(), scenarios, built_in_subjects(), 1);
    use_one_intra_op_thread();
    return made;
  }();
  return *lanes.front();
}

struct Played {
  Case c;
  History history;
  Verdict verdict;
};

Played played(const Demo& demo, const Demo::Values& values = {}, const std::string& mistake = "") {
  auto& tier = lane();
  Played out{.c = demo.case_of(values, mistake), .history = {}, .verdict = {}};
  out.history = tier.play(demo.scenario, out.c, {"lockstep", "sim", "memory"},
                          {.limit = std::chrono::seconds(30)});
  out.verdict = judge(demo.scenario, out.c, out.history);
  return out;
}

std::string finding_of(const std::string& name, const Demo::Values& values = {},
                       const std::string& mistake = "") {
  const auto& demo = demo_named(name);
  const auto run = played(demo, values, mistake);
  return demo.show(run.c, run.history).finding;
}

std::string text_of(const Verdict& verdict) {
  return verdict.findings.empty() ? std::string(name_of(verdict.kind))
                                  : verdict.findings.front().text;
}

void expect_drawn(const DemoStory& story) {
  for (auto pictures : {story.pictures, story.page_pictures})
    for (const auto& picture : pictures) {
      for (const auto& line : split(reports::text_of(picture, {.columns = 80}), '\n'))
        EXPECT_LE(reports::width(line), 80U) << line;
      EXPECT_NO_THROW(reports::page(
          {.title = "t", .finding = "f", .text = "", .pictures = {picture}, .command = "c"}));
    }
}

TEST(Demos, HoldWithTheirDefaultsAndAreDrawn) {
  for (const auto& demo : demonstrations()) {
    const auto run = played(demo);
    EXPECT_EQ(run.verdict.kind, Verdict::Kind::pass) << demo.name << ": " << text_of(run.verdict);
    const auto story = demo.show(run.c, run.history);
    EXPECT_TRUE(story.finding.ends_with(".")) << story.finding;
    ASSERT_FALSE(story.pictures.empty());
    ASSERT_TRUE(story.question) << demo.name;
    EXPECT_FALSE(story.question->answer.empty() || story.question->why.empty()) << demo.name;
    expect_drawn(story);
  }
}

TEST(Demos, HoldAtBothEndsOfEverySetting) {
  for (const auto& demo : demonstrations())
    for (const auto& setting : demo.settings) {
      std::vector<std::string> values;
      if (setting.leaf.type == Leaf::Type::truth) values = {"true", "false"};
      if (setting.leaf.type == Leaf::Type::word) values = split(setting.leaf.allowed.choices, '|');
      if (setting.leaf.type == Leaf::Type::whole)
        values = {std::to_string(setting.leaf.allowed.least),
                  std::to_string(setting.leaf.allowed.most)};
      if (setting.leaf.type == Leaf::Type::list)
        values = {"[" + std::to_string(setting.leaf.allowed.least) + "," +
                  std::to_string(setting.leaf.allowed.most) + "]"};
      ASSERT_FALSE(values.empty()) << demo.name << " " << setting.leaf.path;
      for (const auto& value : values) {
        Demo::Values given{{setting.leaf.path, value}};
        if (setting.leaf.path == "root") given.insert(given.begin(), {"world", "8"});
        const auto run = played(demo, given);
        EXPECT_EQ(run.verdict.kind, Verdict::Kind::pass)
            << demo.name << " --set " << setting.leaf.path << "=" << value << ": "
            << text_of(run.verdict);
        expect_drawn(demo.show(run.c, run.history));
      }
    }
}

// The sentence of each finding is a function of the history: it changes with the mistake.
struct Planted {
  const char* demo;
  const char* mistake;
  Verdict::Kind kind;
  const char* pattern;
};
const std::vector<Planted> kPlanted{
    {"sampler", "set_epoch_forgotten", Verdict::Kind::fail, "epoch_ignored"},
    {"sampler", "seed_per_rank", Verdict::Kind::fail, "not_a_partition"},
    {"buffers", "not_converted", Verdict::Kind::fail, "running_statistics_local"},
    {"buffers", "unwrapped_forward", Verdict::Kind::fail, "kept_own_buffers"},
    {"collectives", "other_root", Verdict::Kind::crash, "mismatched_collectives"},
    {"collectives", "one_rank_skips", Verdict::Kind::hang, "stuck"},
    {"average", "not_divided", Verdict::Kind::fail, "sum_not_average"},
    {"average", "not_wrapped", Verdict::Kind::fail, "not_reduced"},
    {"syncbn", "not_converted", Verdict::Kind::fail, "local_statistics"},
    {"syncbn", "eval_on_one_rank", Verdict::Kind::hang, "stuck"},
    {"no_sync", "last_in_no_sync", Verdict::Kind::fail, "not_reduced"},
    {"no_sync", "no_sync_left_out", Verdict::Kind::fail, "reduced_inside_no_sync"},
    {"unused", "not_marked", Verdict::Kind::crash, "threw"},
    {"unused", "divided_by_users", Verdict::Kind::fail, "divided_by_its_users"},
    {"hang", "one_rank_skips", Verdict::Kind::hang, "stuck"},
    {"hang", "one_too_many", Verdict::Kind::hang, "stuck"},
    {"hang", "other_size", Verdict::Kind::crash, "mismatched_collectives"},
};

TEST(Demos, FindEveryMistakeAndNameIt) {
  for (const auto& [name, mistake, kind, pattern] : kPlanted) {
    const auto run = played(demo_named(name), {}, mistake);
    EXPECT_EQ(run.verdict.kind, kind) << name << " " << mistake << ": " << name_of(run.verdict.kind)
                                      << " " << text_of(run.verdict);
    ASSERT_FALSE(run.verdict.findings.empty()) << name << " " << mistake;
    EXPECT_EQ(run.verdict.findings.front().pattern, pattern)
        << name << " " << mistake << ": " << text_of(run.verdict);
  }
}

TEST(Demos, HaveAllTheirMistakesInTheTableAbove) {
  std::set<std::pair<std::string, std::string>> planted, known;
  for (const auto& one : kPlanted) planted.emplace(one.demo, one.mistake);
  for (const auto& demo : demonstrations())
    for (const auto& mistake : demo.mistakes) known.emplace(demo.name, mistake.name);
  EXPECT_EQ(planted, known);
}

TEST(Demos, ExplainEverySettingAndMistake) {
  std::set<std::string> names;
  for (const auto& demo : demonstrations()) {
    EXPECT_TRUE(names.insert(demo.name).second) << demo.name;
    for (const auto& setting : demo.settings)
      EXPECT_FALSE(setting.meaning.empty()) << demo.name << " " << setting.leaf.path;
    for (const auto& mistake : demo.mistakes)
      EXPECT_FALSE(mistake.meaning.empty()) << demo.name << " " << mistake.name;
    EXPECT_FALSE(demo.lesson.empty() || demo.text.empty()) << demo.name;
  }
}

TEST(SamplerDemo, CountsWhatTheRanksDrew) {
  EXPECT_EQ(finding_of("sampler"),
            "2 ranks draw 10 of 10 samples in each epoch, none twice; the epochs have different "
            "orders.");
  EXPECT_EQ(finding_of("sampler", {{"world", "3"}}),
            "3 ranks draw 10 of 10 samples in each epoch, 2 again; the epochs have different "
            "orders.");
  EXPECT_EQ(finding_of("sampler", {{"world", "3"}, {"drop_last", "true"}}),
            "3 ranks draw 9 of 10 samples in each epoch, none twice, 1 never; the epochs have "
            "different orders.");
  EXPECT_EQ(finding_of("sampler", {}, "set_epoch_forgotten"),
            "2 ranks draw 10 of 10 samples in each epoch, none twice; every epoch has the same "
            "order.");
}

TEST(SamplerDemo, DrawsPyTorchsOrderOfSeed0) {
  const auto& demo = demo_named("sampler");
  const auto run = played(demo);
  const auto story = demo.show(run.c, run.history);
  const auto& grid = std::get<reports::Grid>(story.pictures.at(0).body);
  const auto first_epoch = [&](size_t row) {
    std::string text;
    for (size_t step = 0; step < 5; ++step) text += grid.rows.at(row).cells.at(step).text + " ";
    return text;
  };
  EXPECT_EQ(first_epoch(0), "4 1 7 5 3 9 0 8 6 2 ");
  EXPECT_EQ(first_epoch(1), "4 7 3 0 6 ");
  EXPECT_EQ(first_epoch(2), "1 5 9 8 2 ");
}

TEST(BuffersDemo, SaysWhatEachWayLeavesOnTheLastRank) {
  EXPECT_EQ(finding_of("buffers"),
            "Rank 1 ends with running_mean 0.5 with the broadcast, 0.875 without it and 0.4375 "
            "with SyncBatchNorm; one process has 0.4375, DataParallel keeps 0.");
  EXPECT_NE(finding_of("buffers", {}, "not_converted").find("and 0.5 with SyncBatchNorm"),
            std::string::npos);
  EXPECT_NE(finding_of("buffers", {}, "unwrapped_forward").find("0.875 with the broadcast"),
            std::string::npos);
}

TEST(CollectivesDemo, SaysWhoHoldsTheResult) {
  EXPECT_EQ(finding_of("collectives"),
            "All-reduce leaves the sum 10 on all 4 ranks, reduce on rank 0 alone; all-gather "
            "leaves 1 2 3 4 on all 4 ranks, gather on rank 0 alone.");
  EXPECT_EQ(finding_of("collectives", {{"root", "2"}, {"operation", "max"}}),
            "All-reduce leaves the max 4 on all 4 ranks, reduce on rank 2 alone; all-gather "
            "leaves 1 2 3 4 on all 4 ranks, gather on rank 2 alone.");
}

TEST(CollectivesDemo, RefusesARootThatIsNoRank) {
  try {
    demo_named("collectives").case_of({{"root", "4"}}, "");
    FAIL() << "it took root 4 of 4 ranks";
  } catch (const FieldError& error) {
    EXPECT_STREQ(error.what(), "collectives: root 4 is no rank of a world of 4");
  }
}

TEST(AverageDemo, SaysWhichGradientIsThatOfOneProcess) {
  EXPECT_EQ(
      finding_of("average"),
      "Batches of 3, 1 samples: rank 0 holds the gradient 3, not the 2.5 of one process; with "
      "weighted losses 2.5, which one process has.");
  EXPECT_EQ(finding_of("average", {{"samples", "[2]"}}),
            "Batches of 2, 2 samples: rank 0 holds the gradient 2.5, which one process has; with "
            "weighted losses 2.5, which one process has.");
  EXPECT_NE(finding_of("average", {}, "not_divided").find("the gradient 6, not the 2.5"),
            std::string::npos);
}

TEST(SyncbnDemo, SaysHowFarEachWayIsFromOneProcess) {
  const auto right = finding_of("syncbn");
  EXPECT_TRUE(
      right.starts_with("SyncBatchNorm has the numbers of one process; a plain BatchNorm "
                        "is off by up to "))
      << right;
  EXPECT_TRUE(
      finding_of("syncbn", {}, "not_converted").starts_with("SyncBatchNorm is off by up to"));
}

TEST(NoSyncDemo, SaysWhatTheRanksHoldAfterHowManyAllReduces) {
  EXPECT_EQ(finding_of("no_sync"),
            "After 4 backwards and 1 all-reduce every rank holds 15, where one process has "
            "15.");
  EXPECT_EQ(finding_of("no_sync", {}, "last_in_no_sync"),
            "After 4 backwards and 0 all-reduces the ranks hold 10, 20, where one process has "
            "15.");
}

TEST(UnusedDemo, SaysWhoUsesAParameterAndWhoHoldsItsGradient) {
  EXPECT_EQ(finding_of("unused"),
            "Parameter a is used by rank 0 alone, and all 3 ranks hold the gradient 0.333333: the "
            "sum divided by 3, with zero from ranks that did not use it.");
  EXPECT_EQ(finding_of("unused", {}, "divided_by_users"),
            "Parameter a is used by rank 0 alone, and all 3 ranks hold the gradient 1, not the "
            "0.333333 of one process.");
}

TEST(HangDemo, NamesTheRankThatIsMissing) {
  EXPECT_EQ(finding_of("hang"),
            "4 ranks issued 3 all-reduces each, in one order, and nobody waits.");
  const auto skipped = finding_of("hang", {}, "one_rank_skips");
  EXPECT_TRUE(skipped.starts_with("rank 1 never issued collective #2")) << skipped;
  const auto more = finding_of("hang", {}, "one_too_many");
  EXPECT_TRUE(more.starts_with("ranks 0, 2, 3 never issued collective #3")) << more;
}

}  // namespace
}  // namespace lockstep
