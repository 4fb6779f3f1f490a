#include "reference/batch_norm.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>

namespace lockstep::reference {
namespace {

constexpr double kEps = 0.125;

at::Tensor reals(std::vector<int64_t> shape, uint64_t seed, double shift = 0) {
  auto generator = at::detail::createCPUGenerator(seed);
  return torch::randn(shape, generator, torch::kDouble) * 2 + shift;
}

// Three parts, one of them empty, of unequal size and average.
std::vector<BatchPart> parts_of(const std::vector<int64_t>& behind) {
  std::vector<BatchPart> parts;
  for (const int64_t samples : {5, 0, 2}) {
    std::vector<int64_t> shape{samples, 3};
    shape.insert(shape.end(), behind.begin(), behind.end());
    const auto seed = static_cast<uint64_t>(samples);
    parts.push_back({reals(shape, seed, static_cast<double>(samples)), reals(shape, seed + 50)});
  }
  return parts;
}

BatchNorm layer() {
  return {reals({3}, 7), reals({3}, 8), kEps};
}

double apart(const at::Tensor& a, const at::Tensor& b) {
  return a.numel() == 0 ? 0.0 : (a - b).abs().max().item<double>();
}

at::Tensor all(const std::vector<Rounded>& parts) {
  std::vector<at::Tensor> values;
  for (const auto& part : parts) values.push_back(part.value);
  return at::cat(values);
}

at::Tensor inputs(const std::vector<BatchPart>& parts) {
  std::vector<at::Tensor> values;
  for (const auto& part : parts) values.push_back(part.input);
  return at::cat(values);
}

// LibTorch's own, in double and on the concatenated batch, is another implementation.
TEST(BatchNorm, IsLibtorchsOnTheConcatenatedBatch) {
  for (const auto& behind : std::vector<std::vector<int64_t>>{{}, {4}, {2, 3}, {2, 1, 2}}) {
    const auto parts = parts_of(behind);
    const auto out = normalised(layer(), parts, 53);
    auto mean = torch::zeros({3}, torch::kDouble), variance = torch::zeros({3}, torch::kDouble);
    const auto input = inputs(parts).requires_grad_();
    const auto right = torch::batch_norm(input, layer().weight, layer().bias, mean, variance, true,
                                         /*momentum=*/1, kEps, false);
    std::vector<at::Tensor> cotangents;
    for (const auto& part : parts) cotangents.push_back(part.cotangent);
    right.backward(at::cat(cotangents));
    EXPECT_LT(apart(all(out.outputs), right), 1e-13);
    EXPECT_LT(apart(all(out.input_gradients), input.grad()), 1e-13);
    EXPECT_LT(apart(out.average.value, mean), 1e-13);
    EXPECT_LT(apart(out.unbiased_variance.value, variance), 1e-13);
    EXPECT_FALSE(out.is_undecided);
  }
}

// The input's gradient as CUDA's kernels compute it for a half tensor, one channel: in single
// precision, but for the products of a backward pass and the sums that 512 threads exchange, which
// are rounded to half.
at::Tensor input_gradient_exchanged_in_half(const BatchNorm& by, const BatchPart& part) {
  const auto halved = [](const at::Tensor& values) {
    return values.to(torch::kHalf).to(torch::kFloat);
  };
  const auto average = [&](const at::Tensor& rows) {
    auto sums = torch::zeros({512});
    for (const auto& turn : rows.flatten().split(512)) sums.slice(0, 0, turn.size(0)) += turn;
    for (int64_t left = 256; left >= 1; left /= 2)
      sums = sums.narrow(0, 0, left) + halved(sums.narrow(0, left, left));
    return sums / static_cast<double>(rows.numel());
  };
  const auto input = part.input.to(torch::kFloat), gradient = part.cotangent.to(torch::kFloat);
  const auto distance = input - input.mean(0);
  const auto scale = (distance.square().mean(0) + static_cast<float>(by.eps)).rsqrt();
  const auto bent = gradient - average(gradient) -
                    distance * scale.square() * average(halved(gradient * distance));
  return (bent * scale).to(torch::kDouble);
}

TEST(BatchNorm, SumsThatAreExchangedInANarrowerFormatHaveABoundOfTheirOwn) {
  const auto in_half = [](const at::Tensor& values) {
    return values.to(torch::kHalf).to(torch::kDouble);
  };
  const BatchNorm plain{{}, {}, 1e-5};
  int outside_of_single = 0;
  for (const int64_t samples : {8, 300, 9'000})
    for (uint64_t seed = 0; seed < 20; ++seed) {
      const BatchPart part{in_half(reals({samples, 1}, seed)),
                           in_half(reals({samples, 1}, seed + 50))};
      const auto computed = input_gradient_exchanged_in_half(plain, part);
      const auto is_within = [&](int bits) {
        const Computing computing{.precision_bits = 24, .exchanged_bits = bits};
        const auto right = normalised(plain, {part}, computing).input_gradients.front();
        EXPECT_TRUE(at::all(right.error >= 0).item<bool>());
        return at::all((computed - right.value).abs() <= right.error).item<bool>();
      };
      EXPECT_TRUE(is_within(11)) << samples << ", seed " << seed;
      outside_of_single += is_within(24) ? 0 : 1;
    }
  EXPECT_GT(outside_of_single, 10);
}

TEST(BatchNorm, EvaluationIsLibtorchs) {
  for (const int bits : {24, 53}) {
    const auto dtype = bits == 24 ? torch::kFloat : torch::kDouble;
    const auto mean = reals({3}, 9).to(dtype), variance = reals({3}, 10).square().to(dtype);
    const auto weight = layer().weight.to(dtype), bias = layer().bias.to(dtype);
    const auto input = reals({4, 3, 2}, 11, 5).to(dtype);
    const auto right = evaluated({weight.to(torch::kDouble), bias.to(torch::kDouble), kEps},
                                 input.to(torch::kDouble), mean.to(torch::kDouble),
                                 variance.to(torch::kDouble), bits);
    const auto seen =
        torch::batch_norm(input, weight, bias, mean, variance, false, /*momentum=*/1, kEps, false);
    const auto off = (seen.to(torch::kDouble) - right.value).abs();
    EXPECT_TRUE((off <= right.error).all().item<bool>());
    EXPECT_LT(right.error.max().item<double>(), bits == 24 ? 1e-4 : 1e-12);
  }
}

double loss(const BatchNorm& norm, const std::vector<BatchPart>& parts, size_t of_part) {
  const auto out = normalised(norm, parts, 53);
  return (out.outputs[of_part].value * parts[of_part].cotangent).sum().item<double>();
}

// Central differences of the sum of all parts' losses, and of each part's own.
TEST(BatchNorm, GradientsAreThoseOfNumericDifferentiation) {
  const auto parts = parts_of({});
  const auto out = normalised(layer(), parts, 53);
  constexpr double kStep = 1e-5;
  for (const size_t part : {0u, 2u})
    for (int64_t i = 0; i < parts[part].input.numel(); ++i) {
      const auto whole_loss = [&](double step) {
        auto moved = parts;
        moved[part].input = moved[part].input.clone();
        moved[part].input.view(-1)[i] += step;
        return loss(layer(), moved, 0) + loss(layer(), moved, 2);
      };
      const double slope = (whole_loss(kStep) - whole_loss(-kStep)) / (2 * kStep);
      EXPECT_NEAR(out.input_gradients[part].value.reshape(-1)[i].item<double>(), slope, 1e-8);
    }
  for (const size_t part : {0u, 1u, 2u})
    for (int64_t c = 0; c < 3; ++c) {
      const auto own_loss = [&](double step, bool of_weight) {
        auto norm = layer();
        (of_weight ? norm.weight : norm.bias)[c] += step;
        return loss(norm, parts, part);
      };
      const auto slope = [&](bool of_weight) {
        return (own_loss(kStep, of_weight) - own_loss(-kStep, of_weight)) / (2 * kStep);
      };
      EXPECT_NEAR(out.weight_gradients[part].value[c].item<double>(), slope(true), 1e-8);
      EXPECT_NEAR(out.bias_gradients[part].value[c].item<double>(), slope(false), 1e-8);
    }
}

TEST(BatchNorm, OfNoValuesIsEmptyWithZeroGradients) {
  const at::Tensor none = torch::zeros({0, 3, 2}, torch::kDouble);
  const auto out = normalised(layer(), {{none, none}, {none, none}}, 24);
  EXPECT_EQ(out.count, 0);
  EXPECT_EQ(out.outputs[1].value.sizes(), none.sizes());
  EXPECT_EQ(apart(out.weight_gradients[0].value, torch::zeros({3}, torch::kDouble)), 0);
}

// Float32 computes the same definition, summed forwards and backwards: within the bounds, and the
// bounds within a few thousandths of the values.
TEST(BatchNorm, BoundsHoldForFloat32InTwoOrdersAndAreTight) {
  auto parts = parts_of({4});
  for (auto& part : parts) part.input = part.input.to(at::kFloat).to(at::kDouble);
  for (auto& part : parts) part.cotangent = part.cotangent.to(at::kFloat).to(at::kDouble);
  const BatchNorm norm{torch::tensor({1.5, -2.0, 0.75}, at::kDouble), {}, kEps};
  const auto out = normalised(norm, parts, 24);
  for (const bool backwards : {false, true}) {
    const auto rows = inputs(parts).movedim(1, -1).reshape({-1, 3}).to(at::kFloat);
    const auto ordered = backwards ? rows.flip(0) : rows;
    auto sum = torch::zeros({3});
    for (int64_t i = 0; i < ordered.size(0); ++i) sum += ordered[i];
    const auto average = sum / rows.size(0);
    auto squares = torch::zeros({3});
    for (int64_t i = 0; i < ordered.size(0); ++i) squares += (ordered[i] - average).square();
    const auto inverse = (squares / rows.size(0) + kEps).rsqrt();
    const auto narrow = norm.weight.to(at::kFloat);
    const auto output = backwards ? (rows - average) * inverse * narrow
                                  : rows * (inverse * narrow) - average * (inverse * narrow);
    const auto right = all(out.outputs).movedim(1, -1).reshape({-1, 3});
    std::vector<at::Tensor> errors;
    for (const auto& part : out.outputs)
      errors.push_back(part.error.movedim(1, -1).reshape({-1, 3}));
    const auto error = at::cat(errors);
    EXPECT_TRUE(((output.to(at::kDouble) - right).abs() <= error).all().item<bool>());
    EXPECT_LT(error.max().item<double>(), 2e-4);
    EXPECT_TRUE(((average.to(at::kDouble) - out.average.value).abs() <= out.average.error)
                    .all()
                    .item<bool>());
  }
}

TEST(BatchNorm, ADeviationThatRoundingDecidesIsSaidToBeUndecided) {
  const auto far = torch::tensor({{4096.0}, {4096.0009765625}, {4096.0}}, at::kDouble);
  const BatchNorm norm{{}, {}, 0x1p-30};
  EXPECT_TRUE(normalised(norm, {{far, far}}, 24).is_undecided);
  EXPECT_FALSE(normalised(norm, {{far, far}}, 53).is_undecided);
}

TEST(BatchNorm, RunningValuesMoveByTheFactor) {
  const auto at = [](double value) { return given(torch::tensor({value}, at::kDouble)); };
  const auto out = moved_by(at(8), at(4), 0.25, 24);
  EXPECT_EQ(out.value.item<double>(), 7);
  EXPECT_LT(out.error.item<double>(), 1e-5);
  EXPECT_GT(out.error.item<double>(), 0);
}

TEST(BatchNorm, StoringAddsHalfAUnitInTheLastPlace) {
  const auto one = given(torch::tensor({1.0, 0.0}, at::kDouble));
  const auto half = stored(one, {.precision_bits = 11, .finest_bit_log2 = -24});
  EXPECT_EQ(half.error[0].item<double>(), 0x1p-11 + 0x1p-25);
  EXPECT_EQ(half.error[1].item<double>(), 0x1p-25);
}

}  // namespace
}  // namespace lockstep::reference
