#include "harness/core/trace.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

Collective sum(int64_t sequence, int64_t elements, const std::string& group = "world") {
  return {.op = "allreduce",
          .group = group,
          .dtype = "float32",
          .sequence = sequence,
          .elements = elements};
}

History of(const std::vector<std::vector<Collective>>& by_rank) {
  std::vector<RankHistory> ranks(by_rank.size());
  for (size_t rank = 0; rank < by_rank.size(); ++rank)
    for (const auto& collective : by_rank[rank])
      ranks[rank].events.push_back({{0, "step"}, collective});
  return History(std::move(ranks));
}

TEST(Trace, ranks_that_issue_the_same_agree) {
  const std::vector<Collective> same{sum(0, 4), sum(1, 2)};
  EXPECT_EQ(first_mismatch(of({same, same, same})), std::nullopt);
  EXPECT_EQ(first_missing(of({same, same, same})), std::nullopt);
}

TEST(Trace, the_first_difference_is_told_with_both_sides) {
  const auto mismatch = first_mismatch(of({{sum(0, 4), sum(1, 1536)}, {sum(0, 4), sum(1, 2)}}));
  EXPECT_EQ(
      mismatch,
      "collective #1 differs: rank 0 issued allreduce of 1,536 float32, rank 1 allreduce of 2 "
      "float32");
}

TEST(Trace, every_part_of_a_collective_counts) {
  const Collective broadcast{.op = "broadcast",
                             .group = "world",
                             .dtype = "uint8",
                             .sequence = 0,
                             .elements = 8,
                             .root = 0};
  for (const auto change : std::vector<void (*)(Collective&)>{
           [](Collective& c) { c.op = "allreduce"; }, [](Collective& c) { c.dtype = "int8"; },
           [](Collective& c) { c.elements = 7; }, [](Collective& c) { c.root = 1; }}) {
    auto other = broadcast;
    change(other);
    EXPECT_TRUE(first_mismatch(of({{broadcast}, {broadcast}, {other}})));
  }
}

TEST(Trace, what_is_only_done_on_some_ranks_is_no_difference) {
  auto done = sum(0, 4);
  done.done = true;
  EXPECT_EQ(first_mismatch(of({{done}, {sum(0, 4)}})), std::nullopt);
}

TEST(Trace, groups_are_numbered_apart) {
  EXPECT_EQ(first_mismatch(of({{sum(0, 4, "ranks 0,1")},
                               {sum(0, 4, "ranks 0,1")},
                               {sum(0, 9, "ranks 2,3")},
                               {sum(0, 9, "ranks 2,3")}})),
            std::nullopt);
}

TEST(Trace, unequal_parts_are_allowed_where_the_operation_allows_them) {
  Collective part{.op = "alltoall_base", .group = "world", .dtype = "float32", .elements = 3};
  auto larger = part;
  larger.elements = 5;
  EXPECT_EQ(first_mismatch(of({{part}, {larger}})), std::nullopt);
}

TEST(Trace, who_never_came_is_named) {
  EXPECT_EQ(first_missing(of({{sum(0, 4), sum(1, 2)}, {sum(0, 4)}, {sum(0, 4), sum(1, 2)}})),
            "rank 1 never issued collective #1, allreduce of 2 float32, which ranks 0, 2 issued");
}

TEST(Trace, a_rank_of_the_world_that_issued_nothing_is_missing) {
  EXPECT_EQ(first_missing(of({{sum(0, 4)}, {}})),
            "rank 1 never issued collective #0, allreduce of 4 float32, which rank 0 issued");
}

Collective done(Collective collective) {
  collective.done = true;
  return collective;
}

TEST(Ladder, shows_who_waits_and_who_never_came) {
  const std::vector<Collective> waits{done(sum(0, 4)), done(sum(1, 4)), done(sum(2, 4)), sum(3, 8)};
  const std::vector<Collective> skipped{done(sum(0, 4)), done(sum(1, 4)), done(sum(2, 4))};
  EXPECT_EQ(
      ladder(of({waits, skipped, waits})),
      (std::vector<std::string>{"collective                 rank 0   rank 1  rank 2",
                                "#1 allreduce of 4 float32    done     done    done",
                                "#2 allreduce of 4 float32    done     done    done",
                                "#3 allreduce of 8 float32   waits  missing   waits  \u25c4"}));
}

TEST(Ladder, shows_what_differs_beside_what_most_issued) {
  EXPECT_EQ(ladder(of({{sum(0, 4)}, {sum(0, 6)}, {sum(0, 4)}})),
            (std::vector<std::string>{
                "collective                 rank 0                  rank 1  rank 2",
                "#0 allreduce of 4 float32   waits  allreduce of 6 float32   waits  \u25c4"}));
}

TEST(Ladder, of_a_large_world_shows_those_that_part) {
  std::vector<std::vector<Collective>> ranks(100, {sum(0, 4)});
  ranks[71] = {};
  EXPECT_EQ(
      ladder(of(ranks)),
      (std::vector<std::string>{
          "collective                 rank 0  rank 1  rank 2  rank 3  rank 4  rank 71  of 100",
          "#0 allreduce of 4 float32   waits   waits   waits   waits   waits  missing  \u25c4"}));
}

TEST(Ladder, is_empty_where_all_agree) {
  EXPECT_TRUE(ladder(of({{sum(0, 4)}, {sum(0, 4)}})).empty());
  EXPECT_TRUE(ladder(of({{}, {}})).empty());
}

// A send has no place in the order of a group's collectives.
TEST(Trace, sends_and_receives_are_left_out) {
  const Collective send{.op = "send", .group = "world", .dtype = "float32", .elements = 4};
  auto behind = sum(1, 4);
  EXPECT_EQ(first_mismatch(of({{send, behind}, {sum(0, 4)}})), std::nullopt);
  EXPECT_EQ(first_missing(of({{send, behind}, {sum(0, 4)}})), std::nullopt);
}

}  // namespace
}  // namespace lockstep
