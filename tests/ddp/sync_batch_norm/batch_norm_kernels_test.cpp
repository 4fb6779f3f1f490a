// The loops of SyncBatchNorm: what they copy, views that are computed when read, and threads.
#include "ddp/sync_batch_norm/kernels.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

namespace lockstep {
namespace {

using Shape = std::vector<std::int64_t>;

at::Tensor drawn(const Shape& shape, std::uint64_t seed, at::ScalarType dtype) {
  auto generator = at::detail::createCPUGenerator(seed);
  return (torch::randn(shape, generator, torch::kDouble) * 2 + 1).to(dtype);
}

// The layouts that a tensor of this shape can have.
std::vector<at::Tensor> layouts(const at::Tensor& values) {
  std::vector<at::Tensor> out{values, at::stack({values, values + 1}, -1).select(-1, 0)};
  if (values.dim() == 4) out.push_back(values.contiguous(at::MemoryFormat::ChannelsLast));
  if (values.dim() == 5) out.push_back(values.contiguous(at::MemoryFormat::ChannelsLast3d));
  return out;
}

TEST(BatchNormKernels, WhatLiesInALayoutOfTheLoopsIsNotCopied) {
  for (const Shape& shape : {Shape{2, 3, 4, 5}, Shape{2, 3, 2, 3, 5}}) {
    const auto all = layouts(drawn(shape, 3, at::kFloat));
    EXPECT_TRUE(laid_out(all[0]).is_same(all[0]));
    EXPECT_FALSE(laid_out(all[1]).is_same(all[1]));
    EXPECT_TRUE(laid_out(all[2]).is_same(all[2]));
  }
}

TEST(BatchNormKernels, ViewsThatAreComputedWhenReadAreReadRight) {
  const at::Tensor values = drawn({4, 3}, 3, at::kDouble), minus = at::_neg_view(values);
  EXPECT_EQ(statistics_of(laid_out(minus)).averages, statistics_of(values.neg()).averages);
  const Normaliser by{.averages = torch::zeros({3}, at::kDouble),
                      .inverse_deviations = torch::ones({3}, at::kDouble),
                      .weight = {},
                      .bias = torch::full({1}, 2.0, at::kDouble).expand({3})};
  EXPECT_TRUE(at::equal(normalise(values, by), values + 2));
  EXPECT_TRUE(
      at::equal(gradient_sums(laid_out_like(minus, values), values, by)[0], values.neg().sum(0)));
}

// Large enough that ATen starts threads.
TEST(BatchNormKernels, TheNumberOfThreadsChangesNoBit) {
  for (const auto format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
    const at::Tensor values = drawn({16, 40, 32, 32}, 8, at::kFloat).contiguous(format);
    const Normaliser by{.averages = drawn({40}, 9, at::kDouble),
                        .inverse_deviations = {},
                        .weight = {},
                        .bias = {}};
    const int threads_before = at::get_num_threads();
    std::vector<at::Tensor> sums;
    std::vector<BatchStatistics> statistics;
    for (const int threads : {1, 3, 4}) {
      at::set_num_threads(threads);
      statistics.push_back(statistics_of(values));
      sums.push_back(gradient_sums(values, values, by));
    }
    at::set_num_threads(threads_before);
    for (std::size_t i = 1; i < sums.size(); ++i) {
      EXPECT_EQ(statistics[i], statistics[0]);
      EXPECT_TRUE(at::equal(sums[i], sums[0]));
    }
  }
}

}  // namespace
}  // namespace lockstep
