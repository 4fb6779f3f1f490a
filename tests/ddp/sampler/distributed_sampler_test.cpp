#include "tests/ddp/sampler/samplers.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <sstream>

namespace lockstep {
namespace {

// PyTorch 2.11, DistributedSampler(range(10), 2, rank): list(sampler).
TEST(DistributedSampler, HasPyTorchsOrder) {
  EXPECT_EQ(sampler_of(10, 2, 0).indices(), (Indices{4, 7, 3, 0, 6}));
  EXPECT_EQ(sampler_of(10, 2, 1).indices(), (Indices{1, 5, 9, 8, 2}));
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
