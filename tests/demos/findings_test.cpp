// Checks what each demonstration finds in its history.
#include "tests/demos/played.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace lockstep {
namespace {

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

TEST(DpVsDdpDemo, SaysWhatEachMoves) {
  EXPECT_EQ(
      finding_of("dp_vs_ddp"),
      "DataParallel moves 252 bytes to and from its first device and computes 8 losses there; with "
      "DDP a rank sends 24 bytes and computes 2; both have the gradient 4.5 of one process.");
  EXPECT_EQ(finding_of("dp_vs_ddp", {}, "loss_summed"),
            "DataParallel moves 252 bytes to and from its first device and computes 8 losses "
            "there; with DDP a rank sends 24 bytes and computes 2; the gradients are 4.5 and 9, "
            "where one process has 4.5.");
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

TEST(BucketsDemo, SaysWhichGradientsTravelTogether) {
  EXPECT_EQ(finding_of("buckets"),
            "6 gradients travel in 4 all-reduces, the largest of 12 bytes: f, d e, b c, a; in the "
            "second pass a, b c, d e, f.");
  EXPECT_EQ(finding_of("buckets", {{"forward", "first_first"}}),
            "6 gradients travel in 4 all-reduces, the largest of 16 bytes: f, d e, b c, a; in the "
            "second pass f e, d c, b a.");
  EXPECT_EQ(finding_of("buckets", {{"cap_bytes", "64"}}),
            "6 gradients travel in 1 all-reduce, the largest of 40 bytes: a b c d e f; in the "
            "second pass a b c d e f.");
}

TEST(UnevenDemo, SaysWhatTheLastStepAveragesAndWhereAllEnd) {
  EXPECT_EQ(finding_of("uneven"),
            "Ranks with 3, 1, 2 inputs: in step 2 the gradient is 2, and in the end all hold the "
            "weight -22.");
  EXPECT_EQ(finding_of("uneven", {{"divisor", "live"}}),
            "Ranks with 3, 1, 2 inputs: in step 2 the gradient is 6, and in the end all hold the "
            "weight -30.");
  EXPECT_EQ(finding_of("uneven", {}, "begins_again"),
            "Ranks with 3, 1, 2 inputs: in step 2 the gradient is 12, and in the end all hold the "
            "weight -36, not the -22 of the rule.");
}

TEST(ReferenceDemo, SaysHowFarTheRanksAreFromOneProcess) {
  const auto right = finding_of("reference");
  EXPECT_TRUE(right.starts_with("After 8 updates in float32 2 ranks differ from one process by up"))
      << right;
  EXPECT_TRUE(right.ends_with(": it is one training.")) << right;
  for (const char* mistake : {"not_divided", "own_start"}) {
    const auto wrong = finding_of("reference", {}, mistake);
    EXPECT_TRUE(wrong.ends_with(": this is another training.")) << wrong;
  }
}

TEST(FaultsDemo, CountsWhatEachPropertyCatches) {
  EXPECT_EQ(finding_of("faults"),
            "11 of 11 faults are caught, 7 by the gradient of one process and 2 by comparing the "
            "ranks' gradients with each other.");
  EXPECT_EQ(finding_of("faults", {{"samples", "[2]"}, {"buffers", "false"}}),
            "9 of 11 faults are caught, 6 by the gradient of one process and 2 by comparing the "
            "ranks' gradients with each other.");
}

TEST(FaultsDemo, FailsWhereNoPropertyCatchesAFault) {
  const auto& demo = demo_named("faults");
  const auto run = played(demo);
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

TEST(OverlapDemo, SaysWhatEachWayHides) {
  EXPECT_EQ(
      finding_of("overlap"),
      "A step of 805 us alone takes 1,495 us (0 % hidden) with gradients sent after backward, "
      "1,032 us (74 % hidden) with an all-reduce a gradient, and 1,003 us (67 % hidden) in "
      "buckets of 2.");
  EXPECT_NE(finding_of("overlap", {{"latency_us", "0"}}).find("1,015 us (0 % hidden)"),
            std::string::npos)
      << finding_of("overlap", {{"latency_us", "0"}});
  for (const char* mistake : {"forward_order", "sent_at_the_end"})
    EXPECT_NE(finding_of("overlap", {}, mistake).find("(0 % hidden) in buckets of 2"),
              std::string::npos)
        << mistake;
}

// An all-reduce of a bucket of two gradients of 64 bytes takes 2 messages of 40 us and of half of
// its bytes, at 0.5 us each; DDP sends one float of its own beside them.
TEST(OverlapDemo, DrawsTheTimesThatThePricesGive) {
  const auto& demo = demo_named("overlap");
  const auto run = played(demo);
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
  const auto run = played(demo, {{"slow", "3"}});
  const auto story = demo.show(run.c, run.history);
  EXPECT_EQ(std::get<reports::Lanes>(story.pictures.at(0).body).lanes.size(), 6U);
}

TEST(ScaleDemo, SaysWhatOverlapGains) {
  const auto right = finding_of("scale", {{"world", "256"}});
  EXPECT_TRUE(right.starts_with("256 ranks keep ")) << right;
  EXPECT_NE(right, finding_of("scale", {{"world", "256"}}, "sent_at_the_end"));
  EXPECT_EQ(finding_of("scale", {{"world", "1"}}).find("1 rank keeps 100 %"), 0U);
}

TEST(ScaleDemo, RefusesAWorldThatIsNoPowerOfTwo) {
  try {
    demo_named("scale").case_of({{"world", "12"}}, "");
    FAIL() << "it took 12 ranks";
  } catch (const FieldError& error) {
    EXPECT_STREQ(error.what(), "scale: world 12 is no power of two");
  }
}

TEST(HangDemo, SaysWhoIssuedHowManyAndWhoWaits) {
  EXPECT_EQ(finding_of("hang"),
            "Rank 1 issued 2 all-reduces, the others 3: 3 of 4 ranks wait for ever in #2. In the "
            "right run every rank issued 3 all-reduces, and nobody waits.");
  EXPECT_EQ(finding_of("hang", {}, "one_rank_skips"),
            "Rank 1 issued 2 all-reduces, the others 3: 3 of 4 ranks wait for ever in #2.");
  EXPECT_EQ(finding_of("hang", {}, "one_too_many"),
            "Rank 1 issued 4 all-reduces, the others 3: rank 1 alone waits for ever in #3.");
}

// The second all-reduce of the rank that left one out takes the place of the one that it left out.
TEST(HangDemo, DrawsTheMissingRungAndTheNumberOfAnotherStep) {
  const auto& demo = demo_named("hang");
  const auto run = played(demo);
  const auto pictures = demo.show(run.c, run.history).pictures;
  ASSERT_EQ(pictures.size(), 2U);
  const auto& cells = std::get<reports::Grid>(pictures[0].body).rows.at(1).cells;
  EXPECT_EQ(cells.at(1).text, "step 2");
  EXPECT_EQ(cells.at(1).mark, reports::Mark::repeated);
  EXPECT_EQ(cells.at(2).mark, reports::Mark::missing);
  EXPECT_TRUE(pictures[1].is_beside);
}

TEST(FaultsDemo, HasThoseThatFewestPropertiesCatchFirst) {
  const auto& demo = demo_named("faults");
  const auto run = played(demo);
  const auto& rows =
      std::get<reports::Grid>(demo.show(run.c, run.history).pictures.at(0).body).rows;
  for (size_t i = 2; i < rows.size(); ++i)
    EXPECT_LE(std::stoi(rows[i - 1].cells.back().text), std::stoi(rows[i].cells.back().text));
  EXPECT_EQ(std::ranges::count(rows.at(1).cells, reports::Mark::filled, &reports::Cell::mark), 1);
}

// Bricks of 12, 4, 8, 4, 8 and 4 bytes arrive in this order; of the first pass no bucket can leave
// before the last of them, which the first bucket waits for.
TEST(BucketsDemo, DrawsBricksToSizeAndWhereBucketsLeave) {
  const auto& demo = demo_named("buckets");
  const auto run = played(demo);
  const auto pictures = demo.show(run.c, run.history).pictures;
  ASSERT_EQ(pictures.size(), 2U);
  const auto& first = std::get<reports::Lanes>(pictures[0].body).lanes;
  const auto& arrivals = first.at(0).spans;
  ASSERT_EQ(arrivals.size(), 6U);
  EXPECT_EQ(arrivals[0].text, "a");
  EXPECT_EQ(arrivals[0].to, 12);
  EXPECT_EQ(arrivals[5].to, 40);
  const auto& last = first.back().spans;  // bucket 3: a, and then it waits
  ASSERT_EQ(last.size(), 2U);
  EXPECT_EQ(last[1].from, 12);
  EXPECT_EQ(last[1].to, 40);
  EXPECT_TRUE(pictures[0].caption.starts_with("0 of 4 all-reduces leave")) << pictures[0].caption;
  EXPECT_TRUE(pictures[1].caption.starts_with("3 of 4 all-reduces leave")) << pictures[1].caption;
}

}  // namespace
}  // namespace lockstep
