// random_split: the parts that torch.utils.data.random_split gives in Python, recorded from PyTorch
// 2.11 with generator=torch.Generator().manual_seed(seed).
#include "train/random_split.h"

#include "ddp/errors.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace lockstep {
namespace {

using Parts = std::vector<std::vector<std::size_t>>;

TEST(RandomSplit, GivesPyTorchsPartsForLengthsAndForFractions) {
  const Parts seven_and_three = {{2, 6, 1, 8, 4, 5, 0}, {9, 3, 7}};
  EXPECT_EQ(random_split(10, {7, 3}, 42), seven_and_three);
  EXPECT_EQ(random_split(10, std::vector<std::int64_t>{7, 3}, 42), seven_and_three);
  EXPECT_EQ(random_split(10, {0.7, 0.3}, 42), seven_and_three);
  EXPECT_EQ(random_split(5, {0, 5}, 7), (Parts{{}, {0, 1, 3, 2, 4}}));
  EXPECT_EQ(random_split(1, {1}, 3), (Parts{{0}}));
  EXPECT_EQ(random_split(40, {30, 10}, 1099511627781),
            (Parts{{11, 16, 37, 25, 30, 20, 6,  33, 1,  29, 9,  13, 23, 21, 5,
                    28, 31, 27, 39, 38, 10, 19, 15, 17, 36, 32, 12, 8,  18, 2},
                   {34, 24, 14, 26, 0, 35, 3, 22, 7, 4}}));
}

TEST(RandomSplit, GivesTheSamplesThatRoundingLeavesToTheFirstParts) {
  EXPECT_EQ(random_split(11, {0.5, 0.25, 0.25}, 1),
            (Parts{{0, 10, 2, 3, 7, 6}, {4, 8, 1}, {9, 5}}));
  const double third = 1.0 / 3;
  EXPECT_EQ(random_split(7, {third, third, third}, 9), (Parts{{4, 5, 6}, {0, 2}, {1, 3}}));
}

TEST(RandomSplit, GivesPyTorchsPartsOfADatasetOfAHundredThousand) {
  const Parts parts = random_split(100'000, {0.8, 0.1, 0.1}, 0);
  ASSERT_EQ(parts.size(), 3U);
  const std::size_t expected[][5] = {{80'000, 36044, 73702, 76369, 64150},
                                     {10'000, 83824, 4129, 78508, 44737},
                                     {10'000, 16658, 49673, 89055, 84786}};
  for (std::size_t i = 0; i < 3; ++i) {
    const auto& part = parts[i];
    const std::size_t seen[] = {part.size(), part[0], part[1], part[2], part.back()};
    EXPECT_TRUE(std::equal(std::begin(seen), std::end(seen), expected[i])) << "part " << i;
  }
}

std::string sentence_of(std::size_t size, const std::vector<double>& lengths) {
  try {
    random_split(size, lengths, 0);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(RandomSplit, RefusesLengthsThatDoNotFit) {
  EXPECT_EQ(sentence_of(10, {7, 2}),
            "random_split: the sum of the lengths is 9, expected the 10 samples of the dataset");
  EXPECT_EQ(sentence_of(10, {}),
            "random_split: the sum of the lengths is 0, expected the 10 samples of the dataset");
  EXPECT_EQ(sentence_of(10, {0.5, 0.25}),
            "random_split: the length 0.5 is no whole number of samples, and the lengths are no "
            "fractions, whose sum is 1");
  EXPECT_EQ(sentence_of(10, {12, -2}),
            "random_split: the length -2 is no whole number of samples, and the lengths are no "
            "fractions, whose sum is 1");
  EXPECT_EQ(sentence_of(10, {1.5, -0.5}), "random_split: the fraction 1.5 is not between 0 and 1");
}

}  // namespace
}  // namespace lockstep
