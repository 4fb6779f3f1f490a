#include "reference/sampling.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace lockstep::reference {
namespace {

using Samples = std::vector<int64_t>;

// PyTorch's published order of ten samples on two ranks, seed 0, epoch 0.
TEST(Sampling, ten_samples_on_two_ranks_are_dealt_as_PyTorch_does) {
  const Epoch epoch{.length = 10, .world_size = 2};
  EXPECT_EQ(rank_order(epoch, 0), (Samples{4, 7, 3, 0, 6}));
  EXPECT_EQ(rank_order(epoch, 1), (Samples{1, 5, 9, 8, 2}));
}

TEST(Sampling, permutation_is_torch_randperm_bit_for_bit) {
  for (const int64_t length : {0, 1, 2, 3, 10, 100, 1000, 40'000})
    for (const uint64_t seed : {0u, 1u, 2u, 12345u}) {
      auto generator = at::detail::createCPUGenerator(seed);
      const auto torch_order = torch::randperm(length, generator, at::kLong);
      const auto* data = torch_order.const_data_ptr<int64_t>();
      EXPECT_EQ(permutation(length, seed), Samples(data, data + length)) << length << " " << seed;
    }
}

TEST(Sampling, padding_repeats_the_order_from_its_start_as_often_as_needed) {
  const Epoch epoch{.length = 2, .world_size = 7, .shuffle = false};
  EXPECT_EQ(global_order(epoch), (Samples{0, 1, 0, 1, 0, 1, 0}));
}

TEST(Sampling, dropping_cuts_the_tail_and_may_leave_nothing) {
  EXPECT_EQ(global_order({.length = 7, .world_size = 3, .shuffle = false, .drop_last = true}),
            (Samples{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(global_order({.length = 2, .world_size = 3, .shuffle = false, .drop_last = true}),
            Samples{});
}

TEST(Sampling, the_order_depends_on_the_sum_of_seed_and_epoch) {
  EXPECT_EQ(global_order({.length = 16, .seed = 1, .epoch = 0}),
            global_order({.length = 16, .seed = 0, .epoch = 1}));
  EXPECT_NE(global_order({.length = 16, .epoch = 0}), global_order({.length = 16, .epoch = 1}));
}

}  // namespace
}  // namespace lockstep::reference
