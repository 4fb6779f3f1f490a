#include "tests/ddp/sampler/samplers.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <set>
#include <sstream>

namespace lockstep {
namespace {

Indices drain(DistributedSampler& sampler, std::size_t batch_size) {
  Indices all;
  while (const auto batch = sampler.next(batch_size)) {
    EXPECT_FALSE(batch->empty());
    EXPECT_LE(batch->size(), batch_size);
    all.insert(all.end(), batch->begin(), batch->end());
  }
  return all;
}

// PyTorch 2.11, DistributedSampler(range(10), 2, rank): list(sampler).
TEST(DistributedSampler, HasPyTorchsOrder) {
  EXPECT_EQ(sampler_of(10, 2, 0).indices(), (Indices{4, 7, 3, 0, 6}));
  EXPECT_EQ(sampler_of(10, 2, 1).indices(), (Indices{1, 5, 9, 8, 2}));
}

// Written from PyTorch's prose rather than from our code: the list, made longer by repeating itself
// or cut, then every n-th.
Indices expected_share(Indices order, std::size_t ranks, std::size_t rank, bool drop_last) {
  const Indices once = order;
  if (drop_last) {
    while (order.size() % ranks != 0) order.pop_back();
  } else {
    for (std::size_t i = 0; order.size() % ranks != 0; ++i) order.push_back(once[i % once.size()]);
  }
  Indices share;
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (i % ranks == rank) share.push_back(order[i]);
  }
  return share;
}

TEST(DistributedSampler, PartitionsEverySmallDatasetAmongEverySmallWorld) {
  for (std::size_t size = 0; size <= 24; ++size) {
    for (std::int64_t ranks = 1; ranks <= 6; ++ranks) {
      for (const bool drop_last : {false, true}) {
        const auto permutation =
            torch::randperm(static_cast<std::int64_t>(size), at::detail::createCPUGenerator(5 + 3));
        Indices order;
        for (std::int64_t i = 0; i < permutation.numel(); ++i) {
          order.push_back(static_cast<std::size_t>(permutation[i].item<std::int64_t>()));
        }
        std::multiset<std::size_t> seen;
        for (std::int64_t rank = 0; rank < ranks; ++rank) {
          auto sampler = sampler_of(size, ranks, rank,
                                    {.seed = 5, .drop_last = drop_last, .allow_empty = true});
          sampler.set_epoch(3);
          const Indices expected = expected_share(order, static_cast<std::size_t>(ranks),
                                                  static_cast<std::size_t>(rank), drop_last);
          EXPECT_EQ(sampler.indices(), expected);
          EXPECT_EQ(sampler.size(), expected.size());
          EXPECT_EQ(drain(sampler, 3), expected);
          seen.insert(expected.begin(), expected.end());

          auto plain = sampler_of(size, ranks, rank,
                                  {.shuffle = false, .drop_last = drop_last, .allow_empty = true});
          Indices sorted = order;
          std::sort(sorted.begin(), sorted.end());
          EXPECT_EQ(plain.indices(), expected_share(sorted, static_cast<std::size_t>(ranks),
                                                    static_cast<std::size_t>(rank), drop_last));
        }
        const auto world = static_cast<std::size_t>(ranks);
        EXPECT_EQ(seen.size() % world, 0U);
        for (std::size_t index = 0; index < size; ++index) {
          if (drop_last) {
            EXPECT_LE(seen.count(index), 1U);
          } else {
            EXPECT_GE(seen.count(index), 1U);
          }
        }
        if (drop_last) {
          EXPECT_EQ(seen.size(), size / world * world);
        }
      }
    }
  }
}

TEST(DistributedSampler, RepeatsATinyDatasetAsOftenAsNeeded) {
  for (std::int64_t rank = 0; rank < 7; ++rank) {
    EXPECT_EQ(sampler_of(2, 7, rank, {.shuffle = false}).indices(),
              (Indices{static_cast<std::size_t>(rank % 2)}));
  }
  EXPECT_TRUE(sampler_of(2, 7, 0, {.drop_last = true}).indices().empty());
}

TEST(DistributedSampler, DrawsAnotherOrderInEachEpoch) {
  auto sampler = sampler_of(24, 2, 0);
  const Indices first = drain(sampler, 5);
  sampler.reset();
  EXPECT_EQ(drain(sampler, 5), first) << "the same epoch again";
  sampler.set_epoch(1);
  sampler.reset();
  EXPECT_NE(drain(sampler, 5), first);
  EXPECT_EQ(sampler.indices(), sampler_of(24, 2, 0, {.seed = 1}).indices()) << "seed + epoch";
}

TEST(DistributedSampler, KeepsItsOrderUntilReset) {
  auto sampler = sampler_of(10, 2, 0);
  EXPECT_EQ(sampler.next(2), (Indices{4, 7}));
  sampler.set_epoch(1);
  EXPECT_EQ(sampler.next(9), (Indices{3, 0, 6}));
  EXPECT_EQ(sampler.next(9), std::nullopt);
}

TEST(DistributedSampler, TakesANewSizeOnReset) {
  auto sampler = sampler_of(10, 2, 1, {.shuffle = false});
  sampler.reset(4);
  EXPECT_EQ(sampler.size(), 2U);
  EXPECT_EQ(drain(sampler, 1), (Indices{1, 3}));
}

TEST(DistributedSampler, LeavesTheGlobalGeneratorAlone) {
  torch::manual_seed(7);
  const auto before = at::detail::getDefaultCPUGenerator().get_state();
  auto sampler = sampler_of(100, 3, 1);
  drain(sampler, 10);
  EXPECT_TRUE(at::detail::getDefaultCPUGenerator().get_state().equal(before));
}

TEST(DistributedSampler, ContinuesWhereItWasSaved) {
  for (const std::size_t taken : {0U, 3U, 5U}) {
    auto sampler = sampler_of(10, 2, 0, {.seed = 4});
    sampler.set_epoch(2);
    for (std::size_t i = 0; i < taken; ++i) sampler.next(1);
    if (taken > 0) sampler.set_epoch(9);  // for the next epoch; this one goes on
    torch::serialize::OutputArchive out;
    sampler.save(out);
    std::stringstream stream;
    out.save_to(stream);

    auto restored = sampler_of(10, 2, 0, {.seed = 4});
    torch::serialize::InputArchive in;
    in.load_from(stream);
    restored.load(in);
    EXPECT_EQ(restored.epoch(), sampler.epoch());
    EXPECT_EQ(drain(restored, 2), drain(sampler, 2));
    restored.reset();
    EXPECT_EQ(drain(restored, 2), sampler.indices());
  }
}

TEST(DistributedSampler, LetsCopiesDrawForThemselves) {
  auto one = sampler_of(10, 2, 0), two = one;
  EXPECT_EQ(one.next(2), (Indices{4, 7}));
  EXPECT_EQ(two.next(3), (Indices{4, 7, 3}));
  EXPECT_EQ(one.next(9), (Indices{3, 0, 6}));
  EXPECT_EQ(two.next(9), (Indices{0, 6}));
}

TEST(DistributedSampler, RefusesAnothersArchive) {
  torch::serialize::OutputArchive out;
  sampler_of(10, 2, 0).save(out);
  std::stringstream stream;
  out.save_to(stream);
  auto other = sampler_of(10, 2, 1);
  torch::serialize::InputArchive in;
  in.load_from(stream);
  EXPECT_THROW(other.load(in), UsageError);
}

TEST(DistributedSampler, RefusesMisuseWithWhatWasGivenAndExpected) {
  expect_refusal([] { sampler_of(10, 0, 0); }, "num_replicas is 0", "at least 1");
  expect_refusal([] { sampler_of(10, -3, 0); }, "num_replicas is -3", "at least 1");
  expect_refusal([] { sampler_of(10, 2, 2); }, "rank is 2", "0 to 1");
  expect_refusal([] { sampler_of(10, 2, -1); }, "rank is -1", "0 to 1");
  expect_refusal([] { DistributedSampler(10, DistributedSamplerOptions{}); }, "num_replicas",
                 "number of ranks");
  expect_refusal([] { DistributedSampler(10, DistributedSamplerOptions{.num_replicas = 2}); },
                 "rank is not given", "number");
  expect_refusal([] { sampler_of(10, 2, 0).set_epoch(-1); }, "epoch is -1", "at least 0");
  expect_refusal([] { sampler_of(10, 2, 0).next(0); }, "batch_size is 0", "at least 1");
}

TEST(DistributedSampler, RefusesPositionsThatAreNone) {
  auto sampler = sampler_of(10, 2, 0);
  sampler.next(2);
  torch::serialize::OutputArchive out, unused;
  expect_refusal([&] { sampler.save(unused, 3); }, "samples_used is 3", "at most the 2");
  sampler.save(out);
  auto smaller = sampler_of(8, 2, 0);
  auto copy = smaller;
  auto in = reopened(out);
  smaller.load(in);
  expect_refusal([&] { copy.next(1); }, "dataset of 10 samples", "has 8");
  smaller.set_epoch(1);
  EXPECT_EQ(copy.next(9), copy.indices());
}

TEST(DistributedSampler, AnOrderInPlaceOfTheShuffleIsDealtAndTheSameOnAllRanks) {
  const auto weights = torch::tensor({1.0, 0.0, 3.0, 2.0});
  const auto weighted = [&](std::size_t draws, const at::Generator& generator) {
    return at::multinomial(weights, static_cast<std::int64_t>(draws), true, generator);
  };
  const auto drawn = [&](std::int64_t epoch) {
    Indices all(7);
    for (std::int64_t rank = 0; rank < 3; ++rank) {
      auto sampler = sampler_of(7, 3, rank, {.seed = 5, .pad = false, .order = weighted});
      sampler.set_epoch(epoch);
      const auto mine = *sampler.next(9);
      for (std::size_t i = 0; i < mine.size(); ++i)
        all[static_cast<std::size_t>(rank) + 3 * i] = mine[i];
    }
    return all;
  };
  const auto generator = at::detail::createCPUGenerator(5 + 2);
  const auto expected = at::multinomial(weights, 7, true, generator);
  const auto* const first = expected.const_data_ptr<std::int64_t>();
  EXPECT_EQ(drawn(2), Indices(first, first + 7));
  EXPECT_NE(drawn(2), drawn(3));

  const auto short_order = [](std::size_t, const at::Generator&) { return at::arange(3); };
  expect_refusal([&] { sampler_of(7, 3, 0, {.order = short_order}).next(1); }, "returned Long [3]",
                 "expected Long [7]");
  const auto none = [](std::size_t, const at::Generator&) { return at::Tensor(); };
  expect_refusal([&] { sampler_of(7, 3, 0, {.order = none}).indices(); }, "undefined", "Long [7]");
  const auto below_zero = [](std::size_t, const at::Generator&) { return at::arange(-2, 5); };
  expect_refusal([&] { sampler_of(7, 3, 0, {.order = below_zero}).next(1); }, "the index -2",
                 "expected none below 0");
}

TEST(DistributedSampler, AnUnshuffledOrderTakesNoMemory) {
  constexpr std::size_t kSize = std::size_t{1} << 43;
  auto sampler = sampler_of(kSize, 3, 2, {.shuffle = false});
  EXPECT_EQ(sampler.next(3), (Indices{2, 5, 8}));
  EXPECT_EQ(sampler.size(), kSize / 3 + 1);
}

TEST(DistributedSampler, AnEmptyDatasetIsRefusedWhereItIsNotAllowed) {
  expect_refusal([] { sampler_of(0, 2, 0); }, "no samples", "allow_empty");
  auto sampler = sampler_of(10, 2, 0);
  sampler.next(2);
  expect_refusal([&] { sampler.reset(0); }, "no samples", "expected at least 1");
  EXPECT_EQ(sampler.next(9), (Indices{3, 0, 6})) << "the refused reset changed something";
  auto allowed = sampler_of(0, 2, 0, {.constant_memory = true, .allow_empty = true});
  EXPECT_EQ(allowed.next(1), std::nullopt);
  EXPECT_EQ(allowed.size(), 0U);
}

TEST(DistributedSampler, APositionOfAPaddedOrderIsRefusedWhereNothingIsPadded) {
  auto sampler = sampler_of(10, 3, 0);
  sampler.next(2);
  torch::serialize::OutputArchive out;
  sampler.save(out);
  auto in = reopened(out);
  expect_refusal([&] { sampler_of(10, 3, 0, {.pad = false}).load(in); }, "pad is 1", "expected 0");
}

TEST(DistributedSampler, TakesItsPlaceFromAProcessGroup) {
  const c10d::ProcessGroup group(1, 2);
  EXPECT_EQ(DistributedSampler(10, group).indices(), (Indices{1, 5, 9, 8, 2}));
  expect_refusal([&] { DistributedSampler(10, group, {.rank = 0}); }, "rank is 0", "group's is 1");
}

}  // namespace
}  // namespace lockstep
