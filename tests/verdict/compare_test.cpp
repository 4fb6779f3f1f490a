#include "harness/verdict/compare.h"

#include "harness/verdict/element.h"
#include "reports/findings/text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace lockstep {
namespace {

TensorValue floats(const std::vector<float>& values, std::vector<int64_t> shape = {}) {
  if (shape.empty()) shape = {static_cast<int64_t>(values.size())};
  TensorValue out{"float32", shape, {}};
  out.bytes.resize(values.size() * sizeof(float));
  if (!values.empty()) std::memcpy(out.bytes.data(), values.data(), out.bytes.size());
  return out;
}

Findings compared(std::vector<TensorValue> seen, std::vector<TensorValue> wanted,
                  std::vector<TensorValue> bounds = {}) {
  return equal("R", {{.row = {{1, "after"}, "w", std::move(seen)},
                      .expected = std::move(wanted),
                      .bounds = std::move(bounds)}});
}

TEST(Compare, EqualBitsFindNothing) {
  EXPECT_TRUE(compared({floats({1, 2}), floats({1, 2})}, {floats({1, 2})}).empty());
}

TEST(Compare, OneBitIsFoundOnAnyRank) {
  const float next = std::nextafter(2.0F, 3.0F);
  for (size_t guilty = 0; guilty < 3; ++guilty) {
    std::vector<TensorValue> seen(3, floats({1, 2}));
    seen[guilty] = floats({1, next});
    EXPECT_EQ(compared(seen, {floats({1, 2})}).size(), 1u) << guilty;
  }
}

TEST(Compare, TheTextShowsThePlaceTheValuesAndTheDistance) {
  const auto found = compared({floats({1, 2, 3, 4}, {2, 2}), floats({1, 2, 3, 4.5F}, {2, 2})},
                              {floats({1, 2, 3, 4}, {2, 2})});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].where, "step 1, after, w[1, 1]");
  EXPECT_EQ(found[0].pattern, "only_rank_zero_right");
  EXPECT_EQ(reports::text_of(found[0]),
            "w: only rank 0 holds the reference's value; elsewhere one element of 4 differs\n"
            "first divergence: step 1, after, w[1, 1]\n"
            "name     reference  rank 0  rank 1  ratio  ranks agree\n"
            "w[1, 1]          4       4     4.5  1.125           no  ◄\n"
            "note: the ranks differ from each other");
}

TEST(Compare, AGradientThatIsMissingOrTooManyIsNamed) {
  const auto none = floats({}, {0});
  const auto missing = compared({floats({1, 2}), none}, {floats({1, 2})}).at(0);
  EXPECT_EQ(missing.pattern, "no_gradient");
  EXPECT_EQ(reports::text_of(missing),
            "w: rank 1 has no gradient, where one of float32[2] is right\n"
            "first divergence: step 1, after, w[0]\n"
            "name   reference      rank 0  rank 1  ratio  ranks agree\n"
            "w     float32[2]  float32[2]    none      –           no  ◄\n"
            "note: the ranks differ from each other");
  const auto further = compared({floats({1, 2}), floats({1, 2})}, {none}).at(0);
  EXPECT_EQ(further.pattern, "unexpected_gradient");
  EXPECT_EQ(further.diagnosis, "w: rank 0 has a gradient, float32[2], where there must be none");
}

Comparison at_step(int step, const std::vector<float>& seen, const std::vector<float>& right) {
  return {.row = {{step, "after"}, "w", {floats(seen), floats(seen)}}, .expected = {floats(right)}};
}

TEST(Compare, WhatWasRightInAnotherStepIsNamed) {
  const auto found = equal(
      "R", {at_step(0, {1, 2}, {1, 2}), at_step(1, {3, 4}, {3, 4}), at_step(2, {1, 2}, {5, 6})});
  EXPECT_EQ(found.at(0).pattern, "another_steps_value");
  EXPECT_EQ(found.at(0).diagnosis, "w: what was right in step 0");
}

// Two ranks that hold one number are two values.
TEST(Compare, OneNumberThatIsAnotherStepsMayBeSoByChance) {
  EXPECT_EQ(equal("R", {at_step(0, {1}, {1}), at_step(1, {1}, {3})}).at(0).pattern,
            "ranks_agree_reference_differs");
}

// A part of the world may record what the rest does not.
TEST(Compare, RowsOfAnotherNumberOfRanksStandApart) {
  const std::vector<TensorValue> wrong(3, floats({1, 3})), few(1, floats({1, 3}));
  for (const auto& other : {few, std::vector<TensorValue>(1, floats({1, 2}))}) {
    const auto found =
        equal("R", {{.row = {{1, "after"}, "w", wrong}, .expected = {floats({1, 2})}},
                    {.row = {{1, "after"}, "v", other}, .expected = {floats({1, 2})}}});
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].where, "step 1, after, w[1]");
    EXPECT_EQ(reports::text_of(found[0]).find("v["), std::string::npos)
        << reports::text_of(found[0]);
  }
  std::vector<TensorValue> apart = wrong;
  apart[2] = floats({1, 4});
  EXPECT_EQ(alike("R", {{{1, "after"}, "w", apart}, {{1, "after"}, "v", few}}).size(), 1u);
}

// Rows of one moment; each holds `seen` on every rank where 1, 2 is right.
std::string story(const std::vector<std::vector<float>>& seen, size_t world) {
  std::vector<Comparison> rows;
  for (size_t at = 0; at < seen.size(); ++at)
    rows.push_back(
        {.row = {{1, "after"}, "w" + std::to_string(at), std::vector(world, floats(seen[at]))},
         .expected = {floats({1, 2})}});
  rows.push_back({.row = {{2, "after"}, "later", {floats({9})}}, .expected = {floats({1})}});
  const auto found = equal("R", rows);
  return found.empty() ? "nothing" : reports::text_of(found[0]);
}

TEST(Compare, RightRowsStandBesideWrongOnes) {
  EXPECT_EQ(story({{1, 2}, {2, 4}, {2, 4}}, 2),
            "w1: all ranks agree with each other; only the reference exposes this\n"
            "first divergence: step 1, after, w1[0]\n"
            "name   reference  rank 0  rank 1  ratio  ranks agree\n"
            "w0[0]          1       1       1  1.000          yes\n"
            "w1[0]          1       2       2  2.000          yes  ◄\n"
            "w2[0]          1       2       2  2.000          yes  ✗");
}

std::string pattern_of(const std::vector<std::vector<float>>& seen,
                       const std::vector<std::vector<float>>& right) {
  std::vector<Comparison> rows;
  for (size_t at = 0; at < seen.size(); ++at)
    rows.push_back(
        {.row = {{1, "after"}, "w" + std::to_string(at), {floats(seen[at]), floats(seen[at])}},
         .expected = {floats(right[at])}});
  return equal("R", rows).at(0).pattern;
}

TEST(Compare, RowsThatChangedPlacesAreSeen) {
  EXPECT_EQ(pattern_of({{3, 5}, {1, 2}}, {{1, 2}, {3, 5}}), "parameters_permuted");
  EXPECT_EQ(pattern_of({{3, 5}, {4, 9}, {1, 2}}, {{1, 2}, {3, 5}, {4, 9}}), "parameters_permuted");
}

TEST(Compare, ARowThatEqualsAnotherByChanceHasNotChangedPlaces) {
  EXPECT_EQ(pattern_of({{2, 4}, {4, 8}}, {{1, 2}, {2, 4}}), "factor_world_size");
}

TEST(Compare, WhatTheTableLeavesOutIsCounted) {
  std::vector<std::vector<float>> seen(20, {1, 2});
  seen[15] = {1, 7};
  const auto text = story(seen, 9);
  EXPECT_NE(text.find("\nw15[1]"), std::string::npos) << text;
  EXPECT_EQ(text.find("\nw14[0]"), std::string::npos) << text;
  EXPECT_NE(text.find("\nand 12 more rows, all right\nand 3 more ranks, all wrong"),
            std::string::npos)
      << text;
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1 + 1 + 8 + 2)
      << "place, heading, rows, counts: the note is the diagnosis already\n"
      << text;
}

TEST(Compare, RanksThatDifferHaveAColumnFirst) {
  std::vector<TensorValue> seen(9, floats({1, 2}));
  seen[8] = floats({1, 5});
  const auto text = reports::text_of(compared(seen, {floats({1, 2})})[0]);
  EXPECT_NE(text.find("rank 4  rank 8 "), std::string::npos) << text;
  EXPECT_NE(text.find("\nand 3 more ranks, all right\n"), std::string::npos) << text;
}

TEST(Compare, ABoundStandsBesideTheDistance) {
  const auto text =
      reports::text_of(compared({floats({1, 2.5F})}, {floats({1, 2})}, {floats({0.125, 0.25})})[0]);
  EXPECT_NE(text.find("distance  bound"), std::string::npos) << text;
  EXPECT_NE(text.find("     0.5   0.25  1.250"), std::string::npos) << text;
  const auto fine =
      reports::text_of(compared({floats({2.1875F})}, {floats({2})}, {floats({0.125})})[0]);
  EXPECT_NE(fine.find("   0.188  0.125 "), std::string::npos) << fine;
}

TEST(Compare, ADistanceInUlpIsShownWhereTheRatioHidesIt) {
  const auto near = reports::text_of(compared({floats({1.0001F})}, {floats({1})})[0]);
  EXPECT_NE(near.find("ULP  ratio\n"), std::string::npos) << near;
  EXPECT_NE(near.find("839  1.000"), std::string::npos) << near;
  TensorValue right{"float64", {1}, std::vector<std::byte>(8)}, seen = right;
  const double one = 1, more = 1 + 1e-5;
  std::memcpy(right.bytes.data(), &one, 8);
  std::memcpy(seen.bytes.data(), &more, 8);
  const auto far = reports::text_of(compared({seen}, {right})[0]);
  EXPECT_NE(far.find("> 2^30  1.000"), std::string::npos) << far;
}

TEST(Compare, NoDistanceInUlpIsShownAcrossZero) {
  for (const float wrong : {-3.0F, 0.0F}) {
    const auto text = reports::text_of(compared({floats({1, wrong})}, {floats({1, 2})})[0]);
    EXPECT_EQ(text.find("ULP"), std::string::npos) << text;
  }
}

TEST(Compare, WholeNumbersThatDifferHaveNoRatioOfOne) {
  const int64_t big = int64_t{1} << 53;
  for (const int64_t seen : {big, big + 2}) {
    const auto text =
        reports::text_of(compared({int64_values({seen})}, {int64_values({big + 1})})[0]);
    EXPECT_EQ(text.find("1.000"), std::string::npos) << text;
  }
}

TEST(Compare, RanksThatAgreeWhereEachHasItsOwnValueAreNotCalledConsistent) {
  const auto found = compared({floats({5, 9}), floats({5, 9})}, {floats({1, 2}), floats({3, 4})});
  EXPECT_EQ(found[0].pattern, "one_value_for_all");
  EXPECT_EQ(reports::text_of(found[0]).find("only the reference"), std::string::npos)
      << reports::text_of(found[0]);
}

TEST(Compare, WhereEachRankHasItsOwnValueEachHasARow) {
  const auto found = compared({floats({1, 2}), floats({3, 7})}, {floats({1, 2}), floats({3, 4})});
  EXPECT_EQ(reports::text_of(found[0]),
            "w: only rank 0 holds the reference's value\n"
            "first divergence: step 1, after, w[1]\n"
            "rank    reference  value  ratio\n"
            "rank 0          2      2  1.000\n"
            "rank 1          4      7  1.750  ◄");
}

TEST(Compare, Float64ThatDifferInTheLastBitsLookDifferent) {
  TensorValue right{"float64", {1}, std::vector<std::byte>(8)}, seen = right;
  const double one = 1, next = std::nextafter(1.0, 2.0);
  std::memcpy(right.bytes.data(), &one, 8);
  std::memcpy(seen.bytes.data(), &next, 8);
  const auto text = reports::text_of(compared({seen}, {right})[0]);
  EXPECT_NE(text.find("1.0000000000000002"), std::string::npos) << text;
}

TEST(Compare, AnotherShapeIsShownInsteadOfValues) {
  const auto text =
      reports::text_of(compared({floats({1, 2}, {2, 1})}, {floats({1, 2}, {1, 2})})[0]);
  EXPECT_NE(text.find("float32[1, 2]  float32[2, 1]"), std::string::npos) << text;
}

TEST(Compare, RanksThatMustAgreeNeedNoReference) {
  const auto found =
      alike("R", {{{0, "look"}, "a", {floats({1}), floats({1}), floats({1})}},
                  {{0, "look"}, "b", {floats({3, 1}), floats({3, 4}), floats({3, 1})}}});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(reports::text_of(found[0]),
            "b: rank 1 differs from the others, which agree\n"
            "first divergence: step 0, look, b[1]\n"
            "name  rank 0  rank 1  rank 2  ranks agree\n"
            "a[0]       1       1       1          yes\n"
            "b[1]       1       4       1           no  ◄");
  EXPECT_TRUE(alike("R", {{{0, "look"}, "a", {floats({1}), floats({1})}}}).empty());
}

TEST(Compare, ABoundAllowsWhatItAllowsAndNoMore) {
  EXPECT_TRUE(compared({floats({1.25F})}, {floats({1})}, {floats({0.25})}).empty());
  EXPECT_FALSE(compared({floats({1.5F})}, {floats({1})}, {floats({0.25})}).empty());
}

TEST(Compare, NanEqualsNanAndNothingElse) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(compared({floats({nan, 1})}, {floats({nan, 1})}).empty());
  EXPECT_FALSE(compared({floats({nan})}, {floats({1})}, {floats({1e30F})}).empty());
  EXPECT_FALSE(compared({floats({1})}, {floats({nan})}, {floats({1e30F})}).empty());
  const auto after_nan = floats({nan, 2}), wanted = floats({nan, 1});
  EXPECT_EQ(first_difference(after_nan, wanted, nullptr), 1U);
  EXPECT_EQ(first_difference(floats({1, 2}), wanted, nullptr), 0U);
}

TEST(Compare, OtherShapesAndDtypesDiffer) {
  EXPECT_FALSE(compared({floats({1, 2}, {2, 1})}, {floats({1, 2}, {1, 2})}).empty());
  EXPECT_FALSE(compared({int64_values({1})}, {floats({1})}).empty());
  EXPECT_FALSE(compared({int64_values({})}, {int64_values({1})}).empty());
}

TEST(Compare, IntegersAreComparedWhole) {
  const int64_t big = (1LL << 60) + 1;
  EXPECT_FALSE(compared({int64_values({big})}, {int64_values({big - 1})}).empty());
  EXPECT_TRUE(compared({int64_values({big})}, {int64_values({big})}).empty());
}

TEST(Compare, UlpDistanceCountsRepresentableNumbers) {
  EXPECT_EQ(ulp_distance(1, 1, "float32"), 0);
  EXPECT_EQ(ulp_distance(1, std::nextafter(1.0F, 2.0F), "float32"), 1);
  EXPECT_EQ(ulp_distance(-0.0, std::numeric_limits<float>::denorm_min(), "float32"), 1);
  EXPECT_EQ(ulp_distance(-std::numeric_limits<float>::denorm_min(),
                         std::numeric_limits<float>::denorm_min(), "float32"),
            2);
  EXPECT_EQ(ulp_distance(1, 1 + 0x1p-10, "float16"), 1);
  EXPECT_EQ(ulp_distance(0x1p-14, 0x1p-14 - 0x1p-24, "float16"), 1);
  EXPECT_EQ(ulp_distance(-0x1p-24, 0x1p-24, "float16"), 2);
  EXPECT_EQ(ulp_distance(2, 2 - 0x1p-7, "bfloat16"), 1);
  EXPECT_EQ(ulp_distance(1, std::nextafter(1.0, 2.0), "float64"), 1);
}

}  // namespace
}  // namespace lockstep
