#include "reference/training.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace lockstep::reference {
namespace {

constexpr Format kExactFloat{.precision_bits = 24, .exact = true};
constexpr Format kExactDouble{.precision_bits = 53, .exact = true};
constexpr Format kBounded{.precision_bits = 24, .exact = false};

at::Tensor matrix(std::vector<std::vector<double>> rows) {
  std::vector<at::Tensor> out;
  for (const auto& row : rows) out.push_back(torch::tensor(row, at::kDouble));
  return torch::stack(out);
}

at::Tensor whole_numbers(at::IntArrayRef shape, int64_t seed) {
  auto generator = at::detail::createCPUGenerator(static_cast<uint64_t>(seed));
  return torch::randint(-3, 4, shape, generator, torch::kDouble);
}

// y = 2x + 1, two samples, cotangents 1 and 3: dw = 1*5 + 3*7, db = 4; by hand.
TEST(Training, GradientsOfOneDenseLayerAreThoseComputedByHand) {
  const std::vector<Branch> network{
      {{.weight = given(matrix({{2}})), .bias = given(torch::tensor({1.0}, at::kDouble))}}};
  const auto out = gradients(network, {matrix({{5}, {7}}), matrix({{1}, {3}})}, 1, kExactFloat);
  ASSERT_EQ(out.by_parameter.size(), 2u);
  EXPECT_EQ(out.by_parameter[0].value.item<double>(), 26);
  EXPECT_EQ(out.by_parameter[1].value.item<double>(), 4);
}

// Autograd is another implementation of the same definition.
TEST(Training, GradientsOfBranchesWithReluAreAutograds) {
  std::vector<Branch> network;
  std::vector<at::Tensor> parameters;
  at::Tensor output;
  const auto x = whole_numbers({6, 3}, 1), cotangents = whole_numbers({6, 1}, 2);
  for (int b = 0; b < 2; ++b) {
    const auto w0 = whole_numbers({4, 3}, 10 + b).requires_grad_();
    const auto b0 = whole_numbers({4}, 20 + b).requires_grad_();
    const auto w1 = whole_numbers({1, 4}, 30 + b).requires_grad_();
    const auto y = torch::relu(x.matmul(w0.t()) + b0).matmul(w1.t());
    output = output.defined() ? output + y : y;
    for (const auto& parameter : {w0, b0, w1}) parameters.push_back(parameter);
    network.push_back(
        {{given(w0.detach()), given(b0.detach()), true}, {given(w1.detach()), {}, false}});
  }
  ((output * cotangents).sum() * 0.25).backward();
  const auto out = gradients(network, {x, cotangents}, 0.25, kExactFloat);
  ASSERT_EQ(out.by_parameter.size(), parameters.size());
  for (size_t p = 0; p < parameters.size(); ++p)
    EXPECT_TRUE(at::equal(out.by_parameter[p].value, parameters[p].grad())) << p;
}

TEST(Training, AnEmptyBatchHasZeroGradients) {
  const std::vector<Branch> network{{{.weight = given(matrix({{2, 1}})), .bias = {}}}};
  const auto out =
      gradients(network, {torch::empty({0, 2}, at::kDouble), torch::empty({0, 1}, at::kDouble)}, 1,
                kExactFloat);
  EXPECT_TRUE(at::equal(out.by_parameter[0].value, torch::zeros({1, 2}, at::kDouble)));
}

Gradients of(double value) {
  return {.by_parameter = {given(torch::tensor({value}, at::kDouble))}, .partial_sum_units_max = 1};
}

TEST(Training, SumsThatNeedMoreBitsThanFloatHasGetNoCertificate) {
  const std::vector<Branch> network{{{.weight = given(matrix({{1}})), .bias = {}}}};
  const Batch wide{matrix({{16'777'216}, {1}}), matrix({{1}, {1}})};
  const auto out = gradients(network, wide, 1, kExactFloat);
  EXPECT_NE(why_not_exact({out}, out, kExactFloat), "");
  EXPECT_EQ(why_not_exact({out}, out, kExactDouble), "");
}

// Multiples of 3 survive the rounded 1/3; 21 times the rounded 1/7 is not 3 in float32.
TEST(Training, ScalingByARoundedReciprocalIsCertifiedBitByBit) {
  EXPECT_EQ(why_not_exact({of(3), of(6), of(9)}, of(6), kExactFloat), "");
  EXPECT_NE(why_not_exact({of(1), of(1), of(1)}, of(1), kExactFloat), "");
  const std::vector<Gradients> seven(7, of(21));
  EXPECT_NE(why_not_exact(seven, of(21), kExactFloat), "");
  EXPECT_EQ(why_not_exact(seven, of(21), kExactDouble), "");
}

TEST(Training, AnAverageThatIsNotTheWholeBatchsGetsNoCertificate) {
  EXPECT_NE(why_not_exact({of(2), of(4)}, of(4), kExactFloat), "");
}

// y is 1 + 2^-24 from below or above, as the sum rounds: nobody can say whether the relu passes.
TEST(Training, AReluThatRoundingDecidesIsReported) {
  const std::vector<Branch> network{{{.weight = given(matrix({{1, 1}})), .bias = {}, .relu = true},
                                     {.weight = given(matrix({{1}})), .bias = {}}}};
  const Batch near_zero{matrix({{1, -1 + 0x1p-26}}), matrix({{1}})};
  const Batch far{matrix({{1, -0.5}}), matrix({{1}})};
  EXPECT_TRUE(gradients(network, near_zero, 1, kBounded).is_undecided);
  EXPECT_FALSE(gradients(network, far, 1, kBounded).is_undecided);
  EXPECT_FALSE(gradients(network, near_zero, 1, kExactDouble).is_undecided);
}

TEST(Training, GradientsOfTwoBatchesAddUp) {
  const auto sum = accumulated({of(3), of(4)}, kExactFloat);
  EXPECT_EQ(sum.by_parameter[0].value.item<double>(), 7);
  EXPECT_EQ(sum.partial_sum_units_max, 7);
}

// The average of three ranks in float32, each on its part, lies within the bound; a mistake of a
// thousandth lies outside.
TEST(Training, AveragesOfRealNumbersLieWithinTheirBounds) {
  auto generator = at::detail::createCPUGenerator(3);
  const auto real = [&](at::IntArrayRef shape) {
    return (torch::rand(shape, generator, torch::kFloat) * 2 - 1).to(at::kDouble);
  };
  for (int trial = 0; trial < 50; ++trial) {
    const auto w0 = real({5, 4}), b0 = real({5}), w1 = real({1, 5});
    const auto x = real({6, 4}), cotangents = real({6, 1});
    const std::vector<Branch> network{{{given(w0), given(b0), true}, {given(w1), {}, false}}};
    const auto whole = gradients(network, {x, cotangents}, 0.5, kBounded);
    std::vector<Gradients> by_rank;
    std::vector<std::vector<at::Tensor>> seen(3);
    for (int rank = 0; rank < 3; ++rank) {
      const auto part = [&](const at::Tensor& all) { return all.slice(0, 2 * rank, 2 * rank + 2); };
      by_rank.push_back(gradients(network, {part(x), part(cotangents)}, 1.5, kBounded));
      std::vector<at::Tensor> own;
      for (const auto& p : {w0, b0, w1}) own.push_back(p.to(at::kFloat).requires_grad_());
      const auto hidden = torch::relu(torch::linear(part(x).to(at::kFloat), own[0], own[1]));
      ((hidden.matmul(own[2].t()) * part(cotangents).to(at::kFloat)).sum() * 1.5).backward();
      for (const auto& p : own) seen[static_cast<size_t>(rank)].push_back(p.grad() * (1.0F / 3));
    }
    if (whole.is_undecided) continue;
    const auto right = averages(by_rank, whole, kBounded);
    for (size_t p = 0; p < right.size(); ++p) {
      const auto average = (seen[0][p] + seen[1][p] + seen[2][p]).to(at::kDouble);
      EXPECT_TRUE(((average - right[p].value).abs() <= right[p].error).all().item<bool>());
      const auto scale = right[p].value.abs().max();
      EXPECT_TRUE((right[p].error.max() < 1e-3 * scale).item<bool>());
    }
  }
}

}  // namespace
}  // namespace lockstep::reference
