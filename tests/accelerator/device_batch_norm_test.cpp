// ATen's kernels for SyncBatchNorm, against BatchNorm of LibTorch on the CPU over the whole batch.

#include "tests/accelerator/devices.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <vector>

namespace lockstep {
namespace {

constexpr double kEps = 1e-3;
constexpr double kMomentum = 0.3;

class DeviceBatchNorm : public ::testing::TestWithParam<at::ScalarType> {
 protected:
  void SetUp() override {
    use_simulated_accelerator(2);
    torch::manual_seed(4);
    whole = (at::randn({7, 3, 2, 2}) * 2 + 5).to(GetParam());
    weight = at::randn({3}).to(statistics());
    bias = at::randn({3}).to(statistics());
    slope = at::randn({7, 3, 2, 2}).to(GetParam());
  }

  static at::ScalarType statistics() {
    return GetParam() == at::kDouble ? at::kDouble : at::kFloat;
  }
  static at::Tensor there(const at::Tensor& tensor) { return tensor.to(accelerator_device(0)); }

  static void expect_near(const at::Tensor& given, const at::Tensor& expected, const char* what) {
    const double tolerance = GetParam() == at::kDouble  ? 1e-11
                             : GetParam() == at::kFloat ? 1e-4
                                                        : 3e-2;
    EXPECT_TRUE(
        given.cpu().to(at::kDouble).allclose(expected.to(at::kDouble), tolerance, tolerance))
        << what << "\n"
        << given.cpu() << "\n"
        << expected;
  }

  at::Tensor whole, weight, bias, slope;
};

TEST_P(DeviceBatchNorm, StatisticsOfPartsAreThoseOfTheWhole) {
  // Two ranks, of 5 samples and of 2.
  std::vector<at::Tensor> averages, inverses;
  for (const at::Tensor& part : {whole.slice(0, 0, 5), whole.slice(0, 5)}) {
    const auto [average, inverse] = at::batch_norm_stats(there(part), kEps);
    EXPECT_EQ(average.scalar_type(), statistics());
    averages.push_back(average);
    inverses.push_back(inverse);
  }
  const at::Tensor running_average = there(at::randn({3}).to(statistics()));
  const at::Tensor running_variance = there(at::rand({3}).to(statistics()));
  const at::Tensor average_before = running_average.cpu().to(at::kDouble);
  const at::Tensor variance_before = running_variance.cpu().to(at::kDouble);
  const auto [average, inverse] = at::batch_norm_gather_stats_with_counts(
      there(whole), at::stack(averages), at::stack(inverses), running_average, running_variance,
      kMomentum, kEps, there(at::tensor({20.0, 8.0}).to(statistics())));
  const at::Tensor rows = whole.to(at::kDouble).transpose(0, 1).reshape({3, -1});
  expect_near(average, rows.mean(1), "average");
  expect_near(inverse, (rows.var(1, /*unbiased=*/false) + kEps).rsqrt(), "inverse deviation");
  expect_near(running_average, average_before * (1 - kMomentum) + rows.mean(1) * kMomentum,
              "running average");
  expect_near(running_variance, variance_before * (1 - kMomentum) + rows.var(1) * kMomentum,
              "running variance");
  EXPECT_EQ(average.scalar_type(), statistics());
}

TEST_P(DeviceBatchNorm, ForwardAndBackwardAreThoseOfBatchNorm) {
  const at::Tensor input = whole.to(at::kDouble).requires_grad_();
  const at::Tensor scale = weight.to(at::kDouble).requires_grad_();
  const at::Tensor shift = bias.to(at::kDouble).requires_grad_();
  const at::Tensor expected =
      at::batch_norm(input, scale, shift, {}, {}, true, kMomentum, kEps, false);
  expected.backward(slope.to(at::kDouble));

  const auto [average, inverse] = at::batch_norm_stats(there(whole), kEps);
  const at::Tensor given =
      at::batch_norm_elemt(there(whole), there(weight), there(bias), average, inverse, kEps);
  EXPECT_EQ(given.scalar_type(), GetParam());
  expect_near(given, expected.detach(), "output");
  const auto [sum, products, of_weight, of_bias] = at::batch_norm_backward_reduce(
      there(slope), there(whole), average, inverse, there(weight), true, true, true);
  EXPECT_EQ(sum.scalar_type(), statistics());
  expect_near(of_weight, scale.grad(), "gradient of the weight");
  expect_near(of_bias, shift.grad(), "gradient of the bias");
  const at::Tensor of_input =
      at::batch_norm_backward_elemt(there(slope), there(whole), average, inverse, there(weight),
                                    sum, products, there(at::tensor({20, 8}, at::kInt)));
  EXPECT_EQ(of_input.scalar_type(), GetParam());
  expect_near(of_input, input.grad(), "gradient of the input");
}

TEST_P(DeviceBatchNorm, WithoutParametersItOnlyNormalises) {
  const auto [average, inverse] = at::batch_norm_stats(there(whole), kEps);
  const at::Tensor expected =
      at::batch_norm(whole.to(at::kDouble), {}, {}, {}, {}, true, 0, kEps, false);
  expect_near(at::batch_norm_elemt(there(whole), {}, {}, average, inverse, kEps), expected,
              "output");
  const auto [sum, products, of_weight, of_bias] = at::batch_norm_backward_reduce(
      there(slope), there(whole), average, inverse, {}, true, false, false);
  EXPECT_FALSE(of_weight.defined());
  EXPECT_FALSE(of_bias.defined());
  EXPECT_TRUE(sum.defined() && products.defined());
}

TEST_P(DeviceBatchNorm, KeepsChannelsLast) {
  const at::Tensor image = whole.contiguous(at::MemoryFormat::ChannelsLast);
  const auto [average, inverse] = at::batch_norm_stats(there(image), kEps);
  const at::Tensor given = at::batch_norm_elemt(there(image), {}, {}, average, inverse, kEps);
  EXPECT_EQ(given.strides(), image.strides());
}

TEST_P(DeviceBatchNorm, RefusesTensorsOfTwoDevices) {
  const auto [average, inverse] = at::batch_norm_stats(there(whole), kEps);
  EXPECT_THROW(
      at::batch_norm_elemt(whole.to(accelerator_device(1)), {}, {}, average, inverse, kEps),
      c10::Error);
}

INSTANTIATE_TEST_SUITE_P(Of, DeviceBatchNorm,
                         ::testing::Values(at::kFloat, at::kDouble, at::kHalf, at::kBFloat16),
                         [](const auto& each) { return c10::toString(each.param); });

}  // namespace
}  // namespace lockstep
