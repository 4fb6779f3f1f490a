// Groups of some ranks, and the verdict where the ranks of a group diverge.
#include "harness/verdict/trace.h"
#include "tests/worlds/forked/toys.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

class GroupsTest : public ForkedTest {};
INSTANTIATE_TEST_SUITE_P(Tiers, GroupsTest, ::testing::Values("cold", "warm", "sim", "launched"),
                         [](const auto& tier) { return tier.param; });

// Ranks that have split off other groups before still meet in the same one.
TEST_P(GroupsTest, GroupsAreSplitOffAGroup) {
  for (int time = 0; time < 2; ++time) {
    const auto history = run(toy("split_off_groups", 4));
    for (const auto& ending : endings(history)) EXPECT_EQ(ending.why, "");
    const auto seen = [&](int rank, const std::string& name) {
      std::vector<double> values;
      for (const auto& event : history.ranks()[static_cast<size_t>(rank)].events)
        if (const auto* observed = std::get_if<Observation>(&event.what))
          if (observed->name == name) values.push_back(as_doubles(observed->value).at(0));
      return values;
    };
    const auto groups = [&](int rank) {
      std::vector<std::string> names;
      for (const auto& collective : history.collectives(rank)) names.push_back(collective.group);
      return names;
    };
    EXPECT_EQ(seen(0, "sum"), (std::vector<double>{3, 6, 6}));
    EXPECT_EQ(seen(2, "sum"), (std::vector<double>{7, 6, 6}));
    EXPECT_EQ(seen(3, "sum"), (std::vector<double>{7}));
    EXPECT_EQ(seen(2, "rank in group"), (std::vector<double>{0, 2, 2}));
    const std::string three = "world/0,1,2";
    EXPECT_EQ(groups(0), (std::vector<std::string>{"world/0,1", three, three + " #2"}));
    EXPECT_EQ(groups(2), (std::vector<std::string>{"world/2,3", three, three + " #2"}));
    EXPECT_EQ(first_mismatch(history), std::nullopt);
    EXPECT_EQ(first_divergence_point(history), std::nullopt);
  }
}

// In a simulated world only where that is asked for: a stack costs as much as a small collective.
TEST_P(GroupsTest, WhereRanksPartTheStoryHasTheirCallSites) {
  const auto c = toy("part_in_swap", 3, 1);
  const auto history = lane().run(toy_scenario(), {toy_scenario().name, to_json(c)}, setting(),
                                  {.time_limit = std::chrono::seconds(5), .call_sites = true});
  ASSERT_NE(first_mismatch(history), std::nullopt);
  const auto kept = kept_output(lane(), history)["call_sites.txt"];
  const auto issued = issued_where_ranks_part(history);
  ASSERT_EQ(issued.size(), 3u);
  for (const auto& [rank, collective] : issued) {
    const auto line = "rank " + std::to_string(rank) + " issued " +
                      place_of(collective.sequence, collective.group) + ", " + text_of(collective) +
                      ", in lockstep::" + (rank == 1 ? "part_in" : "all_reduce");
    EXPECT_NE(kept.find(line), std::string::npos) << line << "\n" << kept;
  }
  EXPECT_NE(kept.find(" at acts.cpp:"), std::string::npos) << kept;
}

TEST_P(GroupsTest, ThatHaveComeToDifferentPlacesAreReported) {
  const auto history = run(toy("split_off_groups", 4));
  const auto front = wavefront(history);
  ASSERT_EQ(front.size(), 4u);
  EXPECT_EQ(std::get<std::string>(front[0]), "world/0,1: ranks 0, 1 done with #0");
  EXPECT_EQ(std::get<std::string>(front[1]), "world/0,1,2: ranks 0, 1, 2 done with #0");
}

}  // namespace
}  // namespace lockstep
