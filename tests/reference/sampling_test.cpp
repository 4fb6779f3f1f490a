#include "reference/sampling.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace lockstep::reference {
namespace {

using Samples = std::vector<int64_t>;

// PyTorch's published order of ten samples on two ranks, seed 0, epoch 0.
TEST(Sampling, TenSamplesOnTwoRanksAreDealtAsPyTorchDoes) {
  const Epoch epoch{.length = 10, .world_size = 2};
  EXPECT_EQ(rank_order(epoch, 0), (Samples{4, 7, 3, 0, 6}));
  EXPECT_EQ(rank_order(epoch, 1), (Samples{1, 5, 9, 8, 2}));
}

TEST(Sampling, PermutationIsTorchRandpermBitForBit) {
  for (const int64_t length : {0, 1, 2, 3, 10, 100, 1000, 40'000})
    for (const uint64_t seed : {0u, 1u, 2u, 12345u}) {
      auto generator = at::detail::createCPUGenerator(seed);
      const auto torch_order = torch::randperm(length, generator, at::kLong);
      const auto* data = torch_order.const_data_ptr<int64_t>();
      EXPECT_EQ(permutation(length, seed), Samples(data, data + length)) << length << " " << seed;
    }
}

TEST(Sampling, PaddingRepeatsTheOrderFromItsStartAsOftenAsNeeded) {
  const Epoch epoch{.length = 2, .world_size = 7, .shuffle = false};
  EXPECT_EQ(global_order(epoch), (Samples{0, 1, 0, 1, 0, 1, 0}));
}

TEST(Sampling, DroppingCutsTheTailAndMayLeaveNothing) {
  EXPECT_EQ(global_order({.length = 7, .world_size = 3, .shuffle = false, .drop_last = true}),
            (Samples{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(global_order({.length = 2, .world_size = 3, .shuffle = false, .drop_last = true}),
            Samples{});
}

TEST(Sampling, TheOrderDependsOnTheSumOfSeedAndEpoch) {
  EXPECT_EQ(global_order({.length = 16, .seed = 1, .epoch = 0}),
            global_order({.length = 16, .seed = 0, .epoch = 1}));
  EXPECT_NE(global_order({.length = 16, .epoch = 0}), global_order({.length = 16, .epoch = 1}));
}

}  // namespace
}  // namespace lockstep::reference
