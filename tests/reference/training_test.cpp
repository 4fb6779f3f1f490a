#include "reference/training.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace lockstep::reference {
namespace {

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
TEST(Training, gradients_of_one_dense_layer_are_those_computed_by_hand) {
  const std::vector<Branch> network{
      {{.weight = matrix({{2}}), .bias = torch::tensor({1.0}, at::kDouble)}}};
  const auto out = gradients(network, {matrix({{5}, {7}}), matrix({{1}, {3}})}, 1);
  ASSERT_EQ(out.by_parameter.size(), 2u);
  EXPECT_EQ(out.by_parameter[0].item<double>(), 26);
  EXPECT_EQ(out.by_parameter[1].item<double>(), 4);
}

// Autograd is another implementation of the same definition.
TEST(Training, gradients_of_branches_with_relu_are_autograds) {
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
    network.push_back({{w0.detach(), b0.detach(), true}, {w1.detach(), {}, false}});
  }
  ((output * cotangents).sum() * 0.25).backward();
  const auto out = gradients(network, {x, cotangents}, 0.25);
  ASSERT_EQ(out.by_parameter.size(), parameters.size());
  for (size_t p = 0; p < parameters.size(); ++p)
    EXPECT_TRUE(at::equal(out.by_parameter[p], parameters[p].grad())) << p;
}

TEST(Training, an_empty_batch_has_zero_gradients) {
  const std::vector<Branch> network{{{.weight = matrix({{2, 1}}), .bias = {}}}};
  const auto out =
      gradients(network, {torch::empty({0, 2}, at::kDouble), torch::empty({0, 1}, at::kDouble)}, 1);
  EXPECT_TRUE(at::equal(out.by_parameter[0], torch::zeros({1, 2}, at::kDouble)));
}

TEST(Training, finest_bit_is_the_lowest_bit_of_any_element) {
  EXPECT_EQ(finest_bit(torch::tensor({12.0, 8.0}, at::kDouble)), 4.0);
  EXPECT_EQ(finest_bit(torch::tensor({1.5, 8.0, 0.0}, at::kDouble)), 0.5);
  EXPECT_EQ(finest_bit(torch::zeros({3}, at::kDouble)), 0.0);
}

Gradients of(double value) {
  return {.by_parameter = {torch::tensor({value}, at::kDouble)}, .partial_sum_units_max = 1};
}

TEST(Training, sums_that_need_more_bits_than_float_has_get_no_certificate) {
  const std::vector<Branch> network{{{.weight = matrix({{1}}), .bias = {}}}};
  const Batch wide{matrix({{16'777'216}, {1}}), matrix({{1}, {1}})};
  const auto out = gradients(network, wide, 1);
  EXPECT_NE(why_not_exact({out}, out, 24), "");
  EXPECT_EQ(why_not_exact({out}, out, 53), "");
}

// Multiples of 3 survive the rounded 1/3; 21 times the rounded 1/7 is not 3 in float32.
TEST(Training, scaling_by_a_rounded_reciprocal_is_certified_bit_by_bit) {
  EXPECT_EQ(why_not_exact({of(3), of(6), of(9)}, of(6), 24), "");
  EXPECT_NE(why_not_exact({of(1), of(1), of(1)}, of(1), 24), "");
  const std::vector<Gradients> seven(7, of(21));
  EXPECT_NE(why_not_exact(seven, of(21), 24), "");
  EXPECT_EQ(why_not_exact(seven, of(21), 53), "");
}

TEST(Training, an_average_that_is_not_the_whole_batchs_gets_no_certificate) {
  EXPECT_NE(why_not_exact({of(2), of(4)}, of(4), 24), "");
}

}  // namespace
}  // namespace lockstep::reference
