// Checks what demonstrations find with other settings than their defaults: with those, and with
// each mistake, tests/cli/golden and the pages of docs/course have their texts word for word.
#include "tests/demos/demo_run.h"

#include <gtest/gtest.h>

#include <vector>

namespace lockstep {
namespace {

TEST(Findings, FollowTheSettings) {
  struct With {
    const char* demo;
    Demo::Values values;
    const char* finding;
  };
  const std::vector<With> all{
      {"sampler",
       {{"world", "3"}},
       "3 ranks draw 10 of 10 samples in each epoch, 2 again; the epochs have different orders."},
      {"sampler",
       {{"world", "3"}, {"drop_last", "true"}},
       "3 ranks draw 9 of 10 samples in each epoch, none twice, 1 never; the epochs have different "
       "orders."},
      {"collectives",
       {{"root", "2"}, {"operation", "max"}},
       "All-reduce leaves the max 4 on all 4 ranks, reduce on rank 2 alone; all-gather leaves 1 2 "
       "3 "
       "4 on all 4 ranks, gather on rank 2 alone."},
      {"average",
       {{"samples", "[2]"}},
       "Batches of 2, 2 samples: rank 0 holds the gradient 2.5, which one process has; with "
       "weighted losses 2.5, which one process has."},
      {"buckets",
       {{"forward", "first_first"}},
       "6 gradients travel in 4 all-reduces, the largest of 16 bytes: f, d e, b c, a; in the "
       "second "
       "pass f e, d c, b a."},
      {"buckets",
       {{"cap_bytes", "64"}},
       "6 gradients travel in 1 all-reduce, the largest of 40 bytes: a b c d e f; in the second "
       "pass a b c d e f."},
      {"uneven",
       {{"divisor", "live"}},
       "Ranks with 3, 1, 2 inputs: in step 2 the gradient is 6, and in the end all hold the weight "
       "-30."},
      {"faults",
       {{"samples", "[2]"}, {"buffers", "false"}},
       "9 of 11 faults are caught, 6 by the gradient of one process and 2 by comparing the ranks' "
       "gradients with each other."},
  };
  for (const auto& [demo, values, finding] : all) EXPECT_EQ(finding_of(demo, values), finding);
  EXPECT_NE(finding_of("overlap", {{"latency_us", "0"}}).find("1,015 us (0 % hidden)"),
            std::string::npos);
  EXPECT_TRUE(finding_of("scale", {{"world", "256"}}).starts_with("256 ranks keep "));
  EXPECT_TRUE(finding_of("scale", {{"world", "1"}}).starts_with("1 rank keeps 100 %"));
}

TEST(FaultsDemo, FailsWhereNoPropertyCatchesAFault) {
  const auto& demo = demo_named("faults");
  const auto run = run_demo(demo);
  auto ranks = run.history.ranks();
  const Moment at{1, "buffers_kept"};
  const auto of_rank_0 = run.history.row(at, "buffer").by_rank.front();
  for (auto& event : ranks.back().events)
    if (auto* seen = std::get_if<Observation>(&event.what))
      if (event.at == at && seen->name == "buffer") seen->value = of_rank_0;
  const auto findings = demo.scenario.checks(run.c, History(ranks));
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings.front().pattern, "escaped");
  EXPECT_EQ(findings.front().where, "buffers_kept");
}

// An all-reduce of a bucket of two gradients of 64 bytes takes 2 messages of 40 us and of half of
// its bytes, at 0.5 us each; DDP sends one float of its own beside them.
TEST(OverlapDemo, DrawsTheTimesThatThePricesGive) {
  const auto& demo = demo_named("overlap");
  const auto run = run_demo(demo);
  const auto story = demo.show(run.c, run.history);
  const auto& lanes = std::get<reports::Lanes>(story.pictures.at(0).body).lanes;
  ASSERT_EQ(lanes.size(), 3U);
  ASSERT_EQ(lanes.back().label.text, "buckets");
  std::vector<reports::Lanes::Span> sent;
  for (const auto& span : lanes.back().spans)
    if (span.text.starts_with("#")) sent.push_back(span);
  ASSERT_EQ(sent.size(), 3U);
  for (const auto& span : sent) EXPECT_DOUBLE_EQ(span.to - span.from, 2 * (40 + 33));
  EXPECT_EQ(sent[0].mark, reports::Mark::filled);
  EXPECT_EQ(sent[2].mark, reports::Mark::repeated);
}

TEST(OverlapDemo, DrawsAPairOfRanksWhereOneIsSlow) {
  const auto& demo = demo_named("overlap");
  const auto run = run_demo(demo, {{"slow", "3"}});
  const auto story = demo.show(run.c, run.history);
  EXPECT_EQ(std::get<reports::Lanes>(story.pictures.at(0).body).lanes.size(), 6U);
}

TEST(Findings, AreNoneOfSettingsThatDoNotFit) {
  const auto refusal = [](const char* demo, const Demo::Values& values) -> std::string {
    try {
      demo_named(demo).case_of(values, "");
    } catch (const FieldError& error) {
      return error.what();
    }
    return "none";
  };
  EXPECT_EQ(refusal("collectives", {{"root", "4"}}),
            "collectives: root 4 is no rank of a world of 4");
  EXPECT_EQ(refusal("scale", {{"world", "12"}}), "scale: world 12 is no power of two");
}

}  // namespace
}  // namespace lockstep
