#include "harness/verdict/usual_cause.h"

#include <gtest/gtest.h>

#include <functional>

namespace lockstep {
namespace {

const Moment kBackward{1, "backward"};

Collective sum(int64_t elements = 4) {
  return {.op = "allreduce", .group = "world", .dtype = "float32", .elements = elements};
}

RankHistory rank(const std::vector<Collective>& issued, Moment last = kBackward) {
  RankHistory out;
  for (const auto& each : issued) out.events.push_back({kBackward, each});
  out.last = std::move(last);
  return out;
}

std::string cause(std::vector<RankHistory> ranks) {
  const History history(std::move(ranks));
  const auto point = first_divergence_point(history);
  return point ? usual_cause_of(*point, history) : "no divergence";
}

// Rank 1 issues what `change` makes of rank 0's.
std::string cause_of_other(Collective one, const std::function<void(Collective&)>& change) {
  auto other = one;
  change(other);
  return cause({rank({one}), rank({other})});
}

TEST(PartedRanks, WhatDiffersNamesTheCause) {
  Collective broadcast = sum();
  broadcast.op = "broadcast";
  broadcast.root = 0;
  const auto root = cause_of_other(broadcast, [](Collective& c) { c.root = 1; });
  EXPECT_TRUE(root.starts_with("src or dst")) << root;
  const auto models = cause_of_other(broadcast, [](Collective& c) { c.elements = 7; });
  EXPECT_TRUE(models.starts_with("models that differ by rank")) << models;
  const auto order = cause_of_other(sum(), [](Collective& c) { c.elements = 7; });
  EXPECT_TRUE(order.starts_with("ranks reduce gradients or buckets in different orders")) << order;
  auto numbers = sum();
  numbers.dtype = "int64";
  const auto size = cause_of_other(numbers, [](Collective& c) { c.elements = 7; });
  EXPECT_TRUE(size.starts_with("the size of what is sent")) << size;
  const auto branch = cause_of_other(sum(), [](Collective& c) { c.op = "allgather"; });
  EXPECT_TRUE(branch.starts_with("ranks take different branches")) << branch;
  const auto dtype = cause_of_other(sum(), [](Collective& c) { c.dtype = "float16"; });
  EXPECT_TRUE(dtype.starts_with("ranks hold another dtype")) << dtype;
}

TEST(PartedRanks, AnExceptionThatARankCaughtComesFirst) {
  auto caught = rank({});
  caught.events.push_back({kBackward, Injection{.kind = InjectionKind::throw_}});
  auto bucket = sum();
  bucket.bucket = {{0, 1, {"w"}}};
  EXPECT_TRUE(cause({caught, rank({bucket})}).starts_with("a rank caught an exception"));
  caught.events.back().what = Injection{.kind = InjectionKind::delay};
  EXPECT_TRUE(cause({caught, rank({bucket})}).starts_with("a bucket is sent when all"));
}

TEST(PartedRanks, ARankThatNeverCameToTheStepHasFewerBatches) {
  EXPECT_TRUE(cause({rank({}, {0, "after"}), rank({sum()})}).starts_with("ranks have unequal"));
  EXPECT_TRUE(
      cause({rank({}, {1, "before"}), rank({sum()})}).starts_with("an all_reduce for each"));
}

TEST(PartedRanks, ACollectiveThatSomeRanksAloneCall) {
  auto barrier = sum();
  barrier.op = "barrier";
  const auto skipped = cause({rank({}), rank({barrier})});
  EXPECT_NE(skipped.find("under a condition that differs by rank"), std::string::npos) << skipped;
}

TEST(PartedRanks, ARankThatWaitsElsewhereHasAnotherOrder) {
  auto together = sum();
  together.group = "pair";
  together.done = true;
  auto elsewhere = together;
  elsewhere.done = false;
  elsewhere.sequence = 1;
  auto first = rank({together, elsewhere});
  first.ending.kind = Ending::Kind::stuck;
  auto second = rank({together, sum()});
  second.ending.kind = Ending::Kind::stuck;
  EXPECT_TRUE(cause({first, second}).starts_with("ranks run different code"));
}

TEST(PartedRanks, ThatWaitForEachOtherHaveNone) {
  auto done = sum();
  done.done = true;
  auto waits = rank({sum()});
  waits.ending.kind = Ending::Kind::stuck;
  EXPECT_EQ(cause({waits, rank({done})}), "");
}

}  // namespace
}  // namespace lockstep
