#include "harness/core/groups.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(Groups, ShardsAreWrittenAndReadBack) {
  EXPECT_EQ(shard_of("2/5"), (RunShard{2, 5}));
  EXPECT_EQ(shard_text({2, 5}), "2/5");
  EXPECT_EQ(shard_of("10000/10000"), (RunShard{10000, 10000}));
  for (const char* text : {"", "/", "1", "0/3", "4/3", "-1/3", "1/3/5", "1/10001", "a/b", "1/ 3"})
    EXPECT_EQ(shard_of(text), std::nullopt) << text;
}

TEST(Groups, AlikeCasesAreOneGroupInTheOrderOfFirstNumbers) {
  std::vector<CaseGroup> groups;
  add(groups, {.world = 3, .numbers = {5, 7}});
  add(groups, {.world = 2, .numbers = {4}});
  add(groups, {.world = 3, .numbers = {1, 6}});
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].numbers, (NumberSet{1, 5, 6, 7}));
  EXPECT_EQ(groups[1].numbers, (NumberSet{4}));
  cut_after(groups, 3);
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].numbers, (NumberSet{1}));
}

TEST(Groups, RefusedCasesCountAsNothingElse) {
  Result result;
  result.groups = {{.world = 2, .labels = {"world 2"}, .numbers = {1, 2}},
                   {.verdict = Verdict::Kind::refused, .reason = "no GPU", .numbers = {3}},
                   {.world = 4, .labels = {"world 4"}, .numbers = {4}}};
  count_groups(result);
  EXPECT_EQ(result.judged, 3);
  EXPECT_EQ(result.refused, (std::map<std::string, int64_t>{{"no GPU", 1}}));
  EXPECT_EQ(result.labels, (std::map<std::string, int64_t>{{"world 2", 2}, {"world 4", 1}}));
  EXPECT_EQ(result.world_min, 2);
  EXPECT_EQ(result.world_max, 4);
}

}  // namespace
}  // namespace lockstep
