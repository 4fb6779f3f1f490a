#include "harness/core/text.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

using Words = std::vector<std::string>;

TEST(Text, split_keeps_empty_parts) {
  EXPECT_EQ(split("a,,b", ','), (Words{"a", "", "b"}));
  EXPECT_EQ(split("", ','), (Words{""}));
}

TEST(Text, commas_stand_between_thousands) {
  EXPECT_EQ(with_commas(0), "0");
  EXPECT_EQ(with_commas(999), "999");
  EXPECT_EQ(with_commas(1234567), "1,234,567");
  EXPECT_EQ(with_commas(-1000), "-1,000");
}

TEST(Text, only_whole_numbers_are_parsed) {
  EXPECT_EQ(parsed_int("-12"), -12);
  for (const auto* text : {"", "1x", "x", "1.5", " 1"}) EXPECT_FALSE(parsed_int(text)) << text;
}

TEST(Text, near_names_are_those_a_slip_away) {
  const Words known{"sampler.partitions_the_dataset", "gradients.match_single_process"};
  EXPECT_EQ(near_names("gradient.match_single_proces", known),
            (Words{"gradients.match_single_process"}));
  EXPECT_EQ(near_names("sampler", known), (Words{"sampler.partitions_the_dataset"}));
  EXPECT_EQ(near_names("zzz", known), Words{});
}

// FNV-1a's published vectors.
TEST(Text, hashes_are_fnv_1a) {
  EXPECT_EQ(hash_of(""), "cbf29ce484222325");
  EXPECT_EQ(hash_of("a"), "af63dc4c8601ec8c");
  EXPECT_EQ(hash_of("foobar"), "85944171f73967e8");
}

}  // namespace
}  // namespace lockstep
