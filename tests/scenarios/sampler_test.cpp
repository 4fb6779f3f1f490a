// The sampler's checks on made-up histories: right ones pass, each planted mistake is named.
#include "reference/sampling.h"
#include "scenarios/cases/sampling.h"
#include "scenarios/catalogue.h"
#include "scenarios/sampler/acts.h"

#include <gtest/gtest.h>

#include <functional>

namespace lockstep::scenarios {
namespace {

using Samples = std::vector<int64_t>;
using Draw = std::function<Samples(const Sampling&, int epoch, int rank)>;

Samples right(const Sampling& c, int epoch, int rank) {
  return reference::rank_order(
      {c.length, c.world.size, c.shuffle, c.drop_last, c.pad, c.constant_memory, c.seed, epoch},
      rank);
}

Verdict judged(const Sampling& c, const Draw& draw) {
  std::vector<RankHistory> ranks(static_cast<size_t>(c.world.size));
  for (int rank = 0; rank < c.world.size; ++rank)
    for (int epoch = 0; epoch < c.epochs; ++epoch)
      for (const auto* name : {"samples", "samples drawn again"})
        ranks[static_cast<size_t>(rank)].events.push_back(
            {{epoch, "epoch"}, Observation{name, int64_values(draw(c, epoch, rank))}});
  const auto scenario = scenario_in_catalogue("sampler.partitions_the_dataset");
  return judge(scenario, {scenario.name, to_json(c)}, History(std::move(ranks)));
}

std::string pattern(const Sampling& c, const Draw& draw) {
  const auto verdict = judged(c, draw);
  return verdict.findings.empty() ? "pass" : verdict.findings.front().pattern;
}

const Sampling kCase{.world = {.size = 3}, .epochs = 3, .shuffle = true, .length = 20, .seed = 5};

TEST(SamplerPartitionsTheDataset, TheRightOrderPasses) {
  EXPECT_EQ(pattern(kCase, right), "pass");
  for (const auto& c : scenario_in_catalogue("sampler.partitions_the_dataset").every())
    EXPECT_EQ(pattern(from_json<Sampling>(c.value, "case"), right), "pass") << c.value.dump();
}

TEST(SamplerPartitionsTheDataset, EachUsualMistakeIsNamed) {
  const auto wrong = [](auto change) {
    return [change](const Sampling& c, int epoch, int rank) {
      Sampling other = c;
      change(other, epoch);
      return right(other, epoch, rank);
    };
  };
  EXPECT_EQ(pattern(kCase, wrong([](Sampling&, int& epoch) { epoch = 0; })), "epoch_ignored");
  EXPECT_EQ(pattern(kCase, wrong([](Sampling& c, int&) { c.seed = 0; })), "seed_ignored");
  EXPECT_EQ(pattern(kCase, wrong([](Sampling& c, int&) { c.shuffle = false; })), "not_shuffled");
  EXPECT_EQ(pattern(kCase, wrong([](Sampling& c, int&) { c.drop_last = true; })),
            "not_a_partition");
}

TEST(SamplerPartitionsTheDataset, BlocksWhereStridesBelongAreNamed) {
  const auto blocks = [](const Sampling& c, int epoch, int rank) {
    const auto all = reference::global_order(
        {c.length, c.world.size, c.shuffle, c.drop_last, c.pad, c.constant_memory, c.seed, epoch});
    const auto each = static_cast<std::ptrdiff_t>(all.size()) / c.world.size;
    return Samples(all.begin() + rank * each, all.begin() + (rank + 1) * each);
  };
  EXPECT_EQ(pattern(kCase, blocks), "blocks_not_strides");
}

TEST(SamplerPartitionsTheDataset, ARankThatShufflesAloneBreaksThePartition) {
  const auto alone = [](const Sampling& c, int epoch, int rank) {
    Sampling other = c;
    other.seed = c.seed + 100 * rank;
    return right(other, epoch, rank);
  };
  EXPECT_EQ(pattern(kCase, alone), "not_a_partition");
}

TEST(SamplerPartitionsTheDataset, AnIndexOutsideTheDatasetIsFound) {
  const auto outside = [](const Sampling& c, int epoch, int rank) {
    auto samples = right(c, epoch, rank);
    if (epoch == 2 && rank == 1) samples.back() = c.length;
    return samples;
  };
  EXPECT_EQ(pattern(kCase, outside), "out_of_range");
}

TEST(SamplerPartitionsTheDataset, UnequalLengthsAreFound) {
  const auto shorter = [](const Sampling& c, int epoch, int rank) {
    auto samples = right(c, epoch, rank);
    if (rank == 2) samples.pop_back();
    return samples;
  };
  EXPECT_EQ(pattern(kCase, shorter), "unequal_lengths");
}

TEST(SamplerPartitionsTheDataset, TwoSamplesSwappedAreFound) {
  const auto swapped = [](const Sampling& c, int epoch, int rank) {
    auto samples = right(c, epoch, rank);
    if (rank == 0) std::swap(samples[0], samples[1]);
    return samples;
  };
  EXPECT_EQ(judged(kCase, swapped).kind, Verdict::Kind::fail);
}

// The sampler of a `reseed` must refuse the state, in a world of one rank too.
TEST(SamplerFollowsItsProgram, AnotherSamplerDiffersInAnOption) {
  for (int size = 1; size <= 3; ++size)
    for (int rank = 0; rank < size; ++rank)
      for (int which = 0; which < 7; ++which) {
        const Acts c{.world = {.size = size}, .acts = {}, .length = 5};
        auto other = others_of(c, which, rank);
        if (other.rank == rank) other.rank.reset();
        EXPECT_NE(other, options_of(c))
            << "number " << which << " of rank " << rank << " of " << size;
      }
}

}  // namespace
}  // namespace lockstep::scenarios
