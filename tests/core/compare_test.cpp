#include "harness/core/compare.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

namespace lockstep {
namespace {

TensorValue floats(const std::vector<float>& values, std::vector<int64_t> shape = {}) {
  if (shape.empty()) shape = {static_cast<int64_t>(values.size())};
  TensorValue out{"float32", shape, {}};
  out.bytes.resize(values.size() * sizeof(float));
  std::memcpy(out.bytes.data(), values.data(), out.bytes.size());
  return out;
}

Findings compared(std::vector<TensorValue> seen, std::vector<TensorValue> wanted,
                  std::vector<TensorValue> bounds = {}) {
  return equal("R", {{.row = {{1, "after"}, "w", std::move(seen)},
                      .expected = std::move(wanted),
                      .bounds = std::move(bounds)}});
}

TEST(Compare, equal_bits_find_nothing) {
  EXPECT_TRUE(compared({floats({1, 2}), floats({1, 2})}, {floats({1, 2})}).empty());
}

TEST(Compare, one_bit_is_found_on_any_rank) {
  const float next = std::nextafter(2.0F, 3.0F);
  for (size_t guilty = 0; guilty < 3; ++guilty) {
    std::vector<TensorValue> seen(3, floats({1, 2}));
    seen[guilty] = floats({1, next});
    EXPECT_EQ(compared(seen, {floats({1, 2})}).size(), 1u) << guilty;
  }
}

TEST(Compare, the_text_shows_the_place_the_values_and_the_distance) {
  const auto found = compared({floats({1, 2, 3, 4}, {2, 2}), floats({1, 2, 3, 4.5F}, {2, 2})},
                              {floats({1, 2, 3, 4}, {2, 2})});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].where, "step 1, after, w[1, 1]");
  EXPECT_EQ(found[0].pattern, "only_rank_zero_right");
  EXPECT_EQ(found[0].text,
            "w: only rank 0 holds the reference's value\n"
            "first divergence: step 1, after, w[1, 1]\n"
            "rank 0  4  reference 4\n"
            "rank 1  4.5  reference 4  (1,048,576 ULP)");
}

TEST(Compare, a_bound_allows_what_it_allows_and_no_more) {
  EXPECT_TRUE(compared({floats({1.25F})}, {floats({1})}, {floats({0.25})}).empty());
  EXPECT_FALSE(compared({floats({1.5F})}, {floats({1})}, {floats({0.25})}).empty());
}

TEST(Compare, nan_equals_nan_and_nothing_else) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(compared({floats({nan, 1})}, {floats({nan, 1})}).empty());
  EXPECT_FALSE(compared({floats({nan})}, {floats({1})}, {floats({1e30F})}).empty());
  EXPECT_FALSE(compared({floats({1})}, {floats({nan})}, {floats({1e30F})}).empty());
}

TEST(Compare, other_shapes_and_dtypes_differ) {
  EXPECT_FALSE(compared({floats({1, 2}, {2, 1})}, {floats({1, 2}, {1, 2})}).empty());
  EXPECT_FALSE(compared({int64_values({1})}, {floats({1})}).empty());
  EXPECT_FALSE(compared({int64_values({})}, {int64_values({1})}).empty());
}

TEST(Compare, integers_are_compared_whole) {
  const int64_t big = (1LL << 60) + 1;
  EXPECT_FALSE(compared({int64_values({big})}, {int64_values({big - 1})}).empty());
  EXPECT_TRUE(compared({int64_values({big})}, {int64_values({big})}).empty());
}

TEST(Compare, ulp_distance_counts_representable_numbers) {
  EXPECT_EQ(ulp_distance(1, 1, "float32"), 0);
  EXPECT_EQ(ulp_distance(1, std::nextafter(1.0F, 2.0F), "float32"), 1);
  EXPECT_EQ(ulp_distance(-0.0, std::numeric_limits<float>::denorm_min(), "float32"), 1);
  EXPECT_EQ(ulp_distance(-std::numeric_limits<float>::denorm_min(),
                         std::numeric_limits<float>::denorm_min(), "float32"),
            2);
  EXPECT_EQ(ulp_distance(1, std::nextafter(1.0, 2.0), "float64"), 1);
}

}  // namespace
}  // namespace lockstep
