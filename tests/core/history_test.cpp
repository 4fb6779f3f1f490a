#include "harness/core/history.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

RankHistory saw(std::vector<std::pair<Moment, std::vector<int64_t>>> values) {
  RankHistory rank;
  for (auto& [at, value] : values)
    rank.events.push_back({at, Observation{"x", int64_values(value)}});
  return rank;
}

TEST(History, a_row_holds_what_every_rank_saw) {
  const History h({saw({{{0, "p"}, {1}}}), saw({{{0, "p"}, {2}}})});
  const auto row = h.row({0, "p"}, "x");
  EXPECT_EQ(as_integers(row.by_rank.at(0)).at(0), 1);
  EXPECT_EQ(as_integers(row.by_rank.at(1)).at(0), 2);
}

TEST(History, a_row_that_one_rank_lacks_is_not_seen) {
  const History h({saw({{{0, "p"}, {1}}}), saw({})});
  EXPECT_THROW(h.row({0, "p"}, "x"), NotSeen);
  EXPECT_THROW(h.rows("p"), NotSeen);
}

TEST(History, a_row_that_only_a_later_rank_saw_is_not_seen_either) {
  const History h({saw({{{0, "p"}, {1}}}), saw({{{0, "p"}, {1}}, {{1, "p"}, {1}}})});
  EXPECT_THROW(h.rows("p"), NotSeen);
}

TEST(History, a_phase_nobody_recorded_is_not_seen) {
  EXPECT_THROW(History({saw({{{0, "p"}, {1}}})}).rows("q"), NotSeen);
}

TEST(History, the_last_record_of_a_name_counts) {
  const History h({saw({{{0, "p"}, {1}}, {{0, "p"}, {7}}})});
  EXPECT_EQ(as_integers(h.row({0, "p"}, "x").by_rank.at(0)).at(0), 7);
}

TEST(History, the_hash_tells_values_and_endings_apart) {
  const History one({saw({{{0, "p"}, {1}}})});
  auto other = saw({{{0, "p"}, {1}}});
  other.ending = {Ending::Kind::threw, "x"};
  EXPECT_EQ(hash_of(one), hash_of(History({saw({{{0, "p"}, {1}}})})));
  EXPECT_NE(hash_of(one), hash_of(History({saw({{{0, "p"}, {2}}})})));
  EXPECT_NE(hash_of(one), hash_of(History({other})));
}

TEST(History, numbers_without_a_reading_are_refused) {
  EXPECT_THROW(as_doubles({"complex64", {1}, {}}), std::invalid_argument);
  EXPECT_THROW(as_integers({"float32", {1}, {}}), std::invalid_argument);
}

}  // namespace
}  // namespace lockstep
