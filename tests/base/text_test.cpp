#include "harness/base/text.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

using Words = std::vector<std::string>;

TEST(Text, SplitKeepsEmptyParts) {
  EXPECT_EQ(split("a,,b", ','), (Words{"a", "", "b"}));
  EXPECT_EQ(split("", ','), (Words{""}));
}

TEST(Text, CommasStandBetweenThousands) {
  EXPECT_EQ(with_commas(0), "0");
  EXPECT_EQ(with_commas(999), "999");
  EXPECT_EQ(with_commas(1234567), "1,234,567");
  EXPECT_EQ(with_commas(-1000), "-1,000");
}

TEST(Text, OnlyWholeNumbersAreParsed) {
  EXPECT_EQ(parsed_int("-12"), -12);
  for (const auto* text : {"", "1x", "x", "1.5", " 1"}) EXPECT_FALSE(parsed_int(text)) << text;
}

TEST(Text, NearNamesAreThoseASlipAway) {
  const Words known{"sampler.partitions_the_dataset", "gradients.match_single_process"};
  EXPECT_EQ(near_names("gradient.match_single_proces", known),
            (Words{"gradients.match_single_process"}));
  EXPECT_EQ(near_names("sampler", known), (Words{"sampler.partitions_the_dataset"}));
  EXPECT_EQ(near_names("zzz", known), Words{});
}

// A table of all pairs of letters would take gigabytes.
TEST(Text, AWordOfMegabytesIsNearToNothingShort) {
  EXPECT_EQ(near_names(std::string(64 << 20, 'x'), {"sampler", "gradients"}), Words{});
}

// FNV-1a's published vectors.
TEST(Text, HashesAreFnv1a) {
  EXPECT_EQ(hash_of(""), "cbf29ce484222325");
  EXPECT_EQ(hash_of("a"), "af63dc4c8601ec8c");
  EXPECT_EQ(hash_of("foobar"), "85944171f73967e8");
}

TEST(Text, WhatFitsAFewLinesIsQuotedWholeAndTheRestByHeadAndTail) {
  const std::string fits(240, 'x');
  EXPECT_EQ(excerpt(fits), fits);
  const std::string head(200, 'a'), tail(200, 'z');
  const auto cut = excerpt(head + std::string(12'000, 'm') + tail);
  EXPECT_TRUE(cut.starts_with(std::string(100, 'a'))) << cut;
  EXPECT_TRUE(cut.ends_with("zzzz (12,400 bytes)")) << cut;
  EXPECT_NE(cut.find("a ... z"), std::string::npos) << cut;
  EXPECT_LT(cut.size(), 300u);
}

TEST(Text, AnExcerptIsCutBetweenCharacters) {
  for (const std::string& before : {"", "x", "xx"}) {
    std::string text = before;
    for (int i = 0; i < 400; ++i) text += "✗";
    const auto cut = excerpt(text);
    const auto at = cut.find(" ... ");
    EXPECT_EQ((at - before.size()) % 3, 0u);
    EXPECT_TRUE(cut.substr(at + 5).starts_with("✗"));
  }
}

}  // namespace
}  // namespace lockstep
