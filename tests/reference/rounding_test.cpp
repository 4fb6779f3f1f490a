#include "reference/rounding.h"

#include "reference/running_statistics.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace lockstep::reference {
namespace {

constexpr Format kExact{.precision_bits = 24, .exact = true};
constexpr Format kFloat{.precision_bits = 24, .exact = false};

at::Tensor real(at::IntArrayRef shape, at::Generator& generator) {
  return (torch::rand(shape, generator, torch::kFloat) * 2 - 1).to(at::kDouble);
}

at::Tensor narrow(const at::Tensor& values) {
  return values.to(at::kFloat);
}

// Expects float32's result within the bound, and the bound within `most` of what it bounds.
void expect_bounded(const Rounded& right, const at::Tensor& computed, double most) {
  const auto off = (computed.to(at::kDouble) - right.value).abs();
  EXPECT_TRUE((off <= right.error).all().item<bool>()) << off << right.error;
  EXPECT_LT(right.error.max().item<double>(), most);
  EXPECT_GT(right.error.max().item<double>(), 0);
}

TEST(Rounding, FinestBitIsTheLowestBitOfAnyElement) {
  EXPECT_EQ(finest_bit(torch::tensor({12.0, 8.0}, at::kDouble)), 4.0);
  EXPECT_EQ(finest_bit(torch::tensor({1.5, 8.0, 0.0}, at::kDouble)), 0.5);
  EXPECT_EQ(finest_bit(torch::zeros({3}, at::kDouble)), 0.0);
}

TEST(Rounding, WhatFloatComputesLiesWithinTheBounds) {
  auto generator = at::detail::createCPUGenerator(5);
  for (int trial = 0; trial < 100; ++trial) {
    Arithmetic arithmetic(kFloat);
    const auto x = real({4, 9}, generator), w = real({3, 9}, generator), b = real({3}, generator);
    expect_bounded(arithmetic.affine(given(x), given(w), given(b)),
                   torch::linear(narrow(x), narrow(w), narrow(b)), 2e-5);
    expect_bounded(arithmetic.product(given(x), given(w.t())), narrow(x).matmul(narrow(w).t()),
                   2e-5);
    expect_bounded(arithmetic.sum_of_samples(given(x)), narrow(x).sum(0), 2e-6);
    expect_bounded(arithmetic.plus(given(x), given(x.flip(0))), narrow(x) + narrow(x.flip(0)),
                   5e-7);
    // A chain: what one operation rounded goes into the next.
    const auto y = arithmetic.affine(given(x), given(w), given(b));
    const auto z = arithmetic.times(arithmetic.plus(y, y), 3);
    const auto seen = torch::linear(narrow(x), narrow(w), narrow(b));
    expect_bounded(z, (seen + seen) * 3, 2e-4);
  }
}

TEST(Rounding, AnAverageOverRanksLiesWithinItsBoundScaledOrDivided) {
  auto generator = at::detail::createCPUGenerator(6);
  for (const int world : {2, 3, 5, 7}) {
    std::vector<Rounded> ranks;
    auto scaled = torch::zeros({50}), divided = torch::zeros({50});
    for (int rank = 0; rank < world; ++rank) {
      ranks.push_back(given(real({50}, generator)));
      scaled += narrow(ranks.back().value) * (1.0F / static_cast<float>(world));
      divided += narrow(ranks.back().value) / world;
    }
    Arithmetic arithmetic(kFloat);
    const auto right = arithmetic.average(ranks);
    expect_bounded(right, scaled, 2e-6);
    expect_bounded(right, divided, 2e-6);
  }
}

TEST(Rounding, ExactArithmeticHasNoErrorAndCountsUnits) {
  Arithmetic arithmetic(kExact);
  const auto sum = arithmetic.sum_of_samples(given(torch::tensor({{8.0}, {-6.0}}, at::kDouble)));
  EXPECT_EQ(sum.value.item<double>(), 2);
  EXPECT_EQ(sum.error.item<double>(), 0);
  EXPECT_EQ(arithmetic.units_max(), 7);  // 14 in units of 2
}

// The bias may be added first: its bits count with those of the products.
TEST(Rounding, ABiasFinerThanTheProductsCountsInItsOwnUnits) {
  Arithmetic arithmetic(kExact);
  const auto one = torch::ones({1, 1}, at::kDouble);
  arithmetic.affine(given(one * 4), given(one), given(torch::tensor({0.5}, at::kDouble)));
  EXPECT_EQ(arithmetic.units_max(), 9);
}

TEST(RunningStatistics, TheyAreThoseOfTorchWithinTheirBounds) {
  auto generator = at::detail::createCPUGenerator(7);
  for (int trial = 0; trial < 30; ++trial) {
    const auto x = real({3, 2, 4, 4}, generator) + 1, w = real({5, 2, 3, 3}, generator),
               b = real({5}, generator);
    Arithmetic arithmetic(kFloat);
    const auto output = convolution(narrow(x).to(at::kDouble), w, b, arithmetic);
    auto options = torch::nn::functional::Conv2dFuncOptions().bias(narrow(b)).padding(1);
    const auto seen = torch::nn::functional::conv2d(narrow(x), narrow(w), options);
    expect_bounded(output, seen, 1e-4);
    auto mean = torch::full({5}, 0.25F), var = torch::full({5}, 2.0F);
    const auto before = std::pair{mean.to(at::kDouble), var.to(at::kDouble)};
    torch::batch_norm(seen, {}, {}, mean, var, true, 0.125, 1e-5, false);
    const auto own = statistics(output, arithmetic);
    expect_bounded(moved(given(before.first), own.average, 0.125, arithmetic), mean, 1e-4);
    expect_bounded(moved(given(before.second), own.unbiased_variance, 0.125, arithmetic), var,
                   1e-3);
  }
}

}  // namespace
}  // namespace lockstep::reference
