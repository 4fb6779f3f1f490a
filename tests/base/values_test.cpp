#include "harness/base/values.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

// docs/protocol.md prints these; they were made by a program in another language from its formula.
TEST(Values, BitsAreThoseOfThePublishedTestVectors) {
  EXPECT_EQ(bits_at({0, Stream::parameter, 0, 0, 0}), 0xf19264ec81b77bd5u);
  EXPECT_EQ(bits_at({0, Stream::input, 0, 0, 0}), 0x50655ad672a96511u);
  EXPECT_EQ(bits_at({0, Stream::input, 0, 0, 1}), 0x6a5b0f830ec64266u);
  EXPECT_EQ(bits_at({7, Stream::input, 2, 5, 11}), 0x1d612f820b3da8e1u);
  EXPECT_EQ(bits_at({123456789, Stream::cotangent, 3, 1, 1000}), 0xaee4ae488c1eaafeu);
  EXPECT_EQ(bits_at({~uint64_t{0}, Stream::order, 1, 1, 1}), 0x4dac501f835e57b9u);
}

TEST(Values, WholeNumbersAreThoseOfThePublishedTestVectors) {
  EXPECT_EQ(whole_at({0, Stream::parameter, 0, 0, 0}, 3), 3);
  EXPECT_EQ(whole_at({7, Stream::input, 2, 5, 11}, 3), -3);
  EXPECT_EQ(whole_at({123456789, Stream::cotangent, 3, 1, 1000}, 3), 1);
}

TEST(Values, RealsAreThoseOfThePublishedTestVectors) {
  EXPECT_EQ(real_at({0, Stream::parameter, 0, 0, 0}), 0.8872800974672221);
  EXPECT_EQ(real_at({7, Stream::input, 2, 5, 11}), -0.7704716315288518);
}

TEST(Values, WholeNumbersReachBothEndsAndStayBetweenThem) {
  int64_t least = 0, most = 0;
  for (uint64_t i = 0; i < 1000; ++i) {
    const auto value = whole_at({.seed = 1, .index = i}, 3);
    least = std::min(least, value);
    most = std::max(most, value);
  }
  EXPECT_EQ(least, -3);
  EXPECT_EQ(most, 3);
}

TEST(Values, EveryCoordinateMatters) {
  const Counter at{1, Stream::input, 2, 3, 4};
  for (const Counter& other :
       {Counter{2, Stream::input, 2, 3, 4}, Counter{1, Stream::order, 2, 3, 4},
        Counter{1, Stream::input, 3, 3, 4}, Counter{1, Stream::input, 2, 4, 4},
        Counter{1, Stream::input, 2, 3, 5}})
    EXPECT_NE(bits_at(at), bits_at(other));
}

}  // namespace
}  // namespace lockstep
