#include "harness/worlds/options.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(Options, SurviveTheirJson) {
  const WrapOptions wrap{.broadcast_buffers = false, .bucket_cap_bytes = 1024};
  EXPECT_EQ(from_json<WrapOptions>(to_json(wrap), "wrap"), wrap);
  const ShardOptions shard{.length = 7,
                           .shuffle = true,
                           .drop_last = true,
                           .seed = 3,
                           .through_loader = true,
                           .batch_size = 2};
  EXPECT_EQ(from_json<ShardOptions>(to_json(shard), "shard"), shard);
}

TEST(Options, TheDefaultsAreTheSmallest) {
  EXPECT_TRUE(smaller_by_field(WrapOptions{}).empty());
  EXPECT_TRUE(smaller_by_field(ShardOptions{}).empty());
}

TEST(Options, ValuesThatMeanNothingAreRefusedByPath) {
  EXPECT_THROW(from_json<ShardOptions>({{"batch_size", 0}}, "shard"), FieldError);
  EXPECT_THROW(from_json<WrapOptions>({{"bucket_cap_bytes", -1}}, "wrap"), FieldError);
}

}  // namespace
}  // namespace lockstep
