// The loops of SyncBatchNorm on one rank's values, against ATen in double precision.
#include "ddp/sync_batch_norm/kernels.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

namespace lockstep {
namespace {

using Shape = std::vector<std::int64_t>;

const std::vector<Shape>& shapes() {
  static const std::vector<Shape> all{{5, 3},       {1, 1},       {33, 20},      {2, 3, 5},
                                      {4, 17, 1},   {2, 3, 4, 5}, {3, 40, 2, 3}, {2, 3, 2, 3, 5},
                                      {0, 3, 2, 2}, {2, 3, 0},    {4, 3, 0, 2}};
  return all;
}

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

// True if offsets mean the same; the stride of an axis of one means nothing, nor that of no values.
bool lie_alike(const at::Tensor& a, const at::Tensor& b) {
  for (std::int64_t axis = 0; axis < a.dim(); ++axis) {
    if (a.numel() > 0 && a.size(axis) > 1 && a.stride(axis) != b.stride(axis)) return false;
  }
  return a.sizes() == b.sizes();
}

at::Tensor rows(const at::Tensor& values) {
  return values.to(at::kDouble).movedim(1, -1).reshape({-1, values.size(1)});
}

at::Tensor beside(const at::Tensor& by_channel, const at::Tensor& values) {
  Shape shape(static_cast<std::size_t>(values.dim()), 1);
  shape[1] = -1;
  return by_channel.view(shape);
}

at::Tensor doubles(const std::vector<double>& values) {
  return torch::tensor(values, at::kDouble);
}

void expect_close(const at::Tensor& ours, const at::Tensor& right, double tolerance) {
  EXPECT_EQ(ours.sizes(), right.sizes());
  EXPECT_TRUE(at::allclose(ours.to(at::kDouble), right.to(at::kDouble), tolerance, tolerance))
      << ours << right;
}

// Half an ULP of values up to 16.
double tolerance_of(at::ScalarType dtype) {
  if (dtype == at::kHalf) return 8e-3;
  if (dtype == at::kBFloat16) return 6.4e-2;
  return dtype == at::kFloat ? 1e-6 : 1e-14;
}

template <class Check>
void for_each_case(const Check& check) {
  for (const Shape& shape : shapes()) {
    for (const auto dtype : {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16}) {
      for (const at::Tensor& values : layouts(drawn(shape, 3, dtype))) {
        SCOPED_TRACE(c10::str(values.sizes(), values.strides(), dtype));
        check(laid_out(values), dtype);
      }
    }
  }
}

TEST(BatchNormKernels, StatisticsAreThoseOfTheDefinition) {
  for_each_case([](const at::Tensor& values, at::ScalarType) {
    const BatchStatistics statistics = statistics_of(values);
    const at::Tensor all = rows(values);
    ASSERT_EQ(statistics.count, all.size(0));
    if (statistics.count == 0) return;
    expect_close(doubles(statistics.averages), all.mean(0), 1e-12);
    expect_close(doubles(statistics.squared_distances), (all - all.mean(0)).square().sum(0), 1e-12);
  });
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

TEST(BatchNormKernels, BothDirectionsAreThoseOfTheDefinitionInEveryLayout) {
  for_each_case([](const at::Tensor& values, at::ScalarType dtype) {
    const std::int64_t channels = values.size(1), count = 7;
    const Normaliser by{.averages = drawn({channels}, 4, at::kDouble),
                        .inverse_deviations = drawn({channels}, 5, at::kDouble).abs(),
                        .weight = drawn({channels}, 6, at::kFloat),
                        .bias = drawn({channels}, 10, at::kFloat)};
    const at::Tensor wide = values.to(at::kDouble), distance = wide - beside(by.averages, wide);
    const at::Tensor inverse = beside(by.inverse_deviations, wide);
    const at::Tensor weight = beside(by.weight.to(at::kDouble), wide);
    const at::Tensor output = normalise(values, by);
    EXPECT_TRUE(lie_alike(output, values)) << output.strides();
    EXPECT_EQ(output.scalar_type(), dtype);
    const at::Tensor right = distance * inverse * weight + beside(by.bias.to(at::kDouble), wide);
    expect_close(output, right, tolerance_of(dtype));

    for (const at::Tensor& given : layouts(drawn(values.sizes().vec(), 7, dtype))) {
      const at::Tensor gradient = laid_out_like(given, values);
      ASSERT_TRUE(lie_alike(gradient, values)) << gradient.strides();
      const at::Tensor upstream = gradient.to(at::kDouble);
      expect_close(gradient_sums(gradient, values, by),
                   at::stack({rows(upstream).sum(0), rows(upstream * distance).sum(0)}), 1e-11);
      const at::Tensor sums = drawn({2, channels}, 9, at::kDouble);
      const at::Tensor back = input_gradient(gradient, values, by, sums, count);
      EXPECT_TRUE(lie_alike(back, values)) << back.strides();
      EXPECT_EQ(back.scalar_type(), dtype);
      const at::Tensor expected = (upstream - beside(sums[0], wide) / count -
                                   distance * inverse * inverse * beside(sums[1], wide) / count) *
                                  inverse * weight;
      expect_close(back, expected, tolerance_of(dtype));
    }
  });
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
