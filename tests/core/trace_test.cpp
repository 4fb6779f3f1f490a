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

}  // namespace
}  // namespace lockstep
