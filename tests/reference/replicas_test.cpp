#include "reference/replicas.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace lockstep::reference {
namespace {

at::Tensor row(std::vector<double> values) {
  return torch::tensor(values, at::kDouble);
}

Replicas two_ranks(at::ScalarType dtype = at::kFloat) {
  return {2, {{dtype, row({1, 2})}, {dtype, row({3})}}};
}

TEST(Replicas, HoldWhatLocalPassesAddUntilAnAverage) {
  auto replicas = two_ranks();
  replicas.add(0, {row({2, 4}), row({6})});
  replicas.add(0, {row({2, 0}), row({0})});
  replicas.add(1, {row({8, 2}), row({-2})});
  EXPECT_TRUE(at::equal(replicas.gradient(0, 0), row({4, 4})));
  EXPECT_TRUE(at::equal(replicas.gradient(1, 0), row({8, 2})));
  replicas.average();
  for (const int rank : {0, 1}) {
    EXPECT_TRUE(at::equal(replicas.gradient(rank, 0), row({6, 3})));
    EXPECT_TRUE(at::equal(replicas.gradient(rank, 1), row({2})));
  }
  EXPECT_EQ(replicas.why_not_exact(), "");
}

TEST(Replicas, AverageOnlyWhatSomeRankUsed) {
  auto replicas = two_ranks();
  replicas.add(0, {row({2, 4}), row({6})});
  replicas.add(1, {row({4, 8}), row({2})});
  replicas.average();
  replicas.add(1, {row({2, 2}), {}});
  replicas.average();
  EXPECT_TRUE(at::equal(replicas.gradient(0, 0), row({4, 7})));
  EXPECT_TRUE(at::equal(replicas.gradient(0, 1), row({4})));
  for (const int rank : {0, 1}) replicas.clear(rank, Cleared::to_none);
  replicas.add(0, {row({2, 2}), {}});
  replicas.average();
  EXPECT_TRUE(at::equal(replicas.gradient(1, 0), row({1, 1})));
  EXPECT_FALSE(replicas.gradient(1, 1).defined());
}

TEST(Replicas, KeepWhatARankDidToAGradientThatNobodyUses) {
  auto replicas = two_ranks();
  replicas.add(0, {row({2, 4}), row({6})});
  replicas.average();
  replicas.scale(1, 2);
  replicas.average();
  EXPECT_TRUE(at::equal(replicas.gradient(0, 1), row({3})));
  EXPECT_TRUE(at::equal(replicas.gradient(1, 1), row({6})));
  replicas.add(1, {{}, row({2})});
  replicas.average();
  EXPECT_TRUE(at::equal(replicas.gradient(0, 1), row({5.5})));
  EXPECT_TRUE(at::equal(replicas.gradient(1, 0), row({2, 4})));
}

TEST(Replicas, AverageWithinTheirGroupsWhatTakesPart) {
  Replicas three(3, {{at::kFloat, row({1})}, {at::kFloat, row({2})}});
  three.average_within({{0}, {1, 2}});
  three.take_part(1, false);
  for (const int rank : {0, 1, 2}) three.add(rank, {row({4.0 * rank}), row({8.0 * rank})});
  three.average();
  EXPECT_TRUE(at::equal(three.gradient(0, 0), row({0})));
  EXPECT_TRUE(at::equal(three.gradient(1, 0), row({6})));
  EXPECT_TRUE(at::equal(three.gradient(2, 0), row({6})));
  EXPECT_TRUE(at::equal(three.gradient(1, 1), row({8})));
  three.take_part(1, true);
  three.average();
  EXPECT_TRUE(at::equal(three.gradient(1, 1), row({8}))) << "brought before it was left out";
  three.load(2, 0, row({7}));
  EXPECT_TRUE(at::equal(three.parameter(2, 0), row({7})));
  three.add(1, {row({2}), {}});
  three.forget_passes();
  three.average();
  EXPECT_TRUE(at::equal(three.gradient(1, 0), row({8})));
  EXPECT_EQ(three.why_not_exact(), "");
}

TEST(Replicas, AverageOverRanksWithInputsAloneAndDivideAsRequested) {
  Replicas three(3, {{at::kFloat, row({1})}});
  for (const int rank : {0, 1, 2}) three.add(rank, {row({6.0 * rank})});
  three.have_inputs({true, false, true});
  three.average();
  EXPECT_TRUE(at::equal(three.gradient(0, 0), row({4})));
  EXPECT_TRUE(at::equal(three.gradient(1, 0), row({6})));
  EXPECT_TRUE(at::equal(three.gradient(2, 0), row({4})));
  three.divide_by(Divisor::ranks_with_inputs);
  three.add(2, {row({6})});
  three.average();
  EXPECT_TRUE(at::equal(three.gradient(0, 0), row({7})));
  three.have_inputs({true, true, true});
  three.average();
  EXPECT_TRUE(at::equal(three.gradient(1, 0), row({6}))) << "brought before an average of others";
  three.have_inputs({false, false, false});
  three.add(0, {row({1})});
  three.average();
  EXPECT_TRUE(at::equal(three.gradient(0, 0), row({8})));
  EXPECT_EQ(three.why_not_exact(), "");
}

TEST(Replicas, UpdateEachRankByItsOwnGradientUnlessThatIsNotFinite) {
  auto replicas = two_ranks();
  replicas.add(0, {row({4, 4}), {}});
  replicas.add(1, {row({INFINITY, 4}), row({4})});
  for (const int rank : {0, 1}) replicas.update(rank, 0.25, /*only_if_finite=*/true);
  EXPECT_TRUE(at::equal(replicas.parameter(0, 0), row({0, 1})));
  EXPECT_TRUE(at::equal(replicas.parameter(0, 1), row({3})));
  EXPECT_TRUE(at::equal(replicas.parameter(1, 1), row({3})));
  replicas.clear(1, Cleared::in_place);
  EXPECT_TRUE(at::equal(replicas.gradient(1, 0), row({0, 0})));
  EXPECT_EQ(replicas.why_not_exact(), "");
}

TEST(Replicas, SayWhyNumbersDoNotFitTheirFormat) {
  auto wide = two_ranks(at::kBFloat16);
  wide.add(0, {row({257, 0}), {}});
  EXPECT_EQ(wide.why_not_exact(), "a gradient needs more bits");

  Replicas three(3, {{at::kFloat, row({1})}});
  three.add(0, {row({4})});
  three.average();
  EXPECT_EQ(three.why_not_exact(), "a gradient divided by a number of ranks needs more bits");

  auto apart = two_ranks();
  apart.add(0, {row({16777216, 0}), {}});
  apart.add(1, {row({1, 0}), {}});
  apart.average();
  EXPECT_EQ(apart.why_not_exact(), "a sum over the ranks needs more bits");

  auto beside = two_ranks();
  beside.add(0, {row({16777216, 0x1p-140}), {}});
  beside.add(1, {row({16777216, 0x3p-140}), {}});
  beside.average();
  EXPECT_EQ(beside.why_not_exact(), "") << "each element has bits of its own";

  auto moved = two_ranks();
  moved.add(0, {row({1, 0}), {}});
  moved.update(0, 0x1p-30, /*only_if_finite=*/false);
  EXPECT_EQ(moved.why_not_exact(), "an updated parameter needs more bits");
}

}  // namespace
}  // namespace lockstep::reference
