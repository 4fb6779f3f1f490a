// Every demonstration in simulated worlds: what it says of its history, that its checks hold, and
// that they do not with each of its mistakes.
#include "demos/catalogue.h"
#include "harness/base/text.h"
#include "reports/pictures/page.h"
#include "reports/pictures/text.h"
#include "tests/demos/demo_run.h"

#include <gtest/gtest.h>

#include <set>

namespace lockstep {
namespace {

std::string text_of(const Verdict& verdict) {
  return verdict.findings.empty() ? std::string(name_of(verdict.kind))
                                  : verdict.findings.front().diagnosis;
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
    const auto run = run_demo(demo);
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
      if (setting.leaf.type == Leaf::Type::word)
        values.assign(setting.leaf.allowed.choices.begin(), setting.leaf.allowed.choices.end());
      if (setting.leaf.type == Leaf::Type::whole)
        values = {std::to_string(setting.leaf.allowed.least),
                  std::to_string(setting.leaf.allowed.most)};
      if (setting.leaf.type == Leaf::Type::list)
        values = {"[" + std::to_string(setting.leaf.allowed.least) + "," +
                  std::to_string(setting.leaf.allowed.most) + "]"};
      ASSERT_FALSE(values.empty()) << demo.name << " " << setting.leaf.path;
      for (const auto& value : values) {
        if (value == setting.otherwise) continue;  // run above
        Demo::Values given{{setting.leaf.path, value}};
        if (setting.leaf.path == "root" || setting.leaf.path == "rank")
          given.insert(given.begin(), {"world", "8"});
        // A world of 1,024 takes seconds, and is the default, which was run.
        if (demo.name == "scale" && setting.leaf.path != "world") given.emplace_back("world", "16");
        const auto run = run_demo(demo, given);
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
    {"dp_vs_ddp", "whole_batch", Verdict::Kind::fail, "whole_batch_on_each_rank"},
    {"dp_vs_ddp", "loss_summed", Verdict::Kind::fail, "loss_summed"},
    {"syncbn", "not_converted", Verdict::Kind::fail, "local_statistics"},
    {"syncbn", "eval_on_one_rank", Verdict::Kind::hang, "stuck"},
    {"no_sync", "last_in_no_sync", Verdict::Kind::fail, "not_reduced"},
    {"no_sync", "no_sync_left_out", Verdict::Kind::fail, "reduced_inside_no_sync"},
    {"unused", "not_marked", Verdict::Kind::crash, "threw"},
    {"unused", "divided_by_users", Verdict::Kind::fail, "divided_by_its_users"},
    {"buckets", "order_by_rank", Verdict::Kind::crash, "mismatched_collectives"},
    {"buckets", "last_bucket_left_out", Verdict::Kind::fail, "not_reduced"},
    {"uneven", "without_join", Verdict::Kind::crash, "threw"},
    {"uneven", "begins_again", Verdict::Kind::fail, "inputs_seen_again"},
    {"hang", "one_rank_skips", Verdict::Kind::hang, "stuck"},
    {"hang", "one_too_many", Verdict::Kind::hang, "stuck"},
    {"hang", "other_size", Verdict::Kind::crash, "mismatched_collectives"},
    {"reference", "not_divided", Verdict::Kind::fail, "sum_not_average"},
    {"reference", "own_start", Verdict::Kind::fail, "own_initial_state"},
    {"overlap", "forward_order", Verdict::Kind::fail, "launched_at_the_end"},
    {"overlap", "sent_at_the_end", Verdict::Kind::fail, "launched_at_the_end"},
    {"scale", "sent_at_the_end", Verdict::Kind::fail, "launched_at_the_end"},
    {"scale", "halves", Verdict::Kind::fail, "average_over_a_half"},
    {"faults", "not_divided", Verdict::Kind::fail, "sum_not_average"},
    {"faults", "divided_twice", Verdict::Kind::fail, "divided_twice"},
    {"faults", "not_reduced", Verdict::Kind::fail, "not_reduced"},
    {"faults", "one_left_out", Verdict::Kind::fail, "not_reduced"},
    {"faults", "own_start", Verdict::Kind::fail, "no_two_ranks_agree"},
    {"faults", "own_rate", Verdict::Kind::fail, "no_two_ranks_agree"},
    {"faults", "same_samples", Verdict::Kind::fail, "not_a_partition"},
    {"faults", "unweighted", Verdict::Kind::fail, "average_of_averages"},
    {"faults", "one_step_late", Verdict::Kind::fail, "last_steps_value"},
    {"faults", "buffers_kept", Verdict::Kind::fail, "no_two_ranks_agree"},
    {"faults", "reduced_twice", Verdict::Kind::fail, "sent_otherwise"},
};

TEST(Demos, FindEveryMistakeAndNameIt) {
  for (const auto& [name, mistake, kind, pattern] : kPlanted) {
    const bool is_large = std::string(name) == "scale";
    const auto run = run_demo(demo_named(name),
                              is_large ? Demo::Values{{"world", "16"}} : Demo::Values{}, mistake);
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

}  // namespace
}  // namespace lockstep
