#include "harness/worlds/sim/collective_matcher.h"

#include <gtest/gtest.h>

namespace lockstep::sim {
namespace {

using namespace std::chrono_literals;

Collective all_reduce(int64_t elements) {
  return {.op = "allreduce", .group = "world", .dtype = "float32", .elements = elements};
}

// Ranks 3, 5 and 6 of a world of eight, as members 0, 1 and 2.
class CollectiveMatcherTest : public ::testing::Test {
 protected:
  // Each of the members runs its part on the one thread of rank 0: a matcher does not block.
  void in_a_rank(const std::function<void()>& body) {
    scheduler_.run([&](int) { body(); });
  }
  RankThreads crew_;
  Scheduler scheduler_{crew_, 1, Chooser({}, 1), 10s};
  CollectiveMatcher<int> matcher_{"ranks 3,5,6", {3, 5, 6}, scheduler_};
};

TEST_F(CollectiveMatcherTest, TheNthOfEachMemberBelongTogether) {
  in_a_rank([&] {
    const auto first = matcher_.join(0, all_reduce(4), 10);
    const auto second = matcher_.join(0, all_reduce(2), 11);
    EXPECT_EQ(matcher_.join(2, all_reduce(4), 30), first);
    EXPECT_FALSE(matcher_.is_complete(*first));
    EXPECT_EQ(matcher_.join(1, all_reduce(4), 20), first);
    EXPECT_TRUE(matcher_.is_complete(*first));
    EXPECT_EQ(first->brought, (std::vector<std::optional<int>>{10, 20, 30}));
    EXPECT_EQ(matcher_.join(1, all_reduce(2), 21), second);
    EXPECT_EQ(second->here, 2);
  });
}

TEST_F(CollectiveMatcherTest, ItLastsUntilTheLastHasCome) {
  in_a_rank([&] {
    scheduler_.advance(3s);
    const auto session = matcher_.join(0, all_reduce(4), 0);
    EXPECT_EQ(session->last_arrival, 3s);
    EXPECT_FALSE(session->over.has_happened()) << "who completes it says when";
  });
}

TEST_F(CollectiveMatcherTest, DifferentCollectivesAreFoundAsTheyMatchAndBothAreShown) {
  const std::vector<std::pair<Collective, std::string>> others{
      {all_reduce(5), "rank 5 issued allreduce of 4 float32, rank 3 allreduce of 5 float32"},
      {{.op = "broadcast", .group = "world", .dtype = "float32", .elements = 4, .root = 1},
       "rank 5 issued allreduce of 4 float32, rank 3 broadcast of 4 float32 from rank 1"}};
  in_a_rank([&] {
    int64_t number = 0;
    for (const auto& [other, text] : others) {
      const auto session = matcher_.join(1, all_reduce(4), 0);
      EXPECT_TRUE(session->error.empty());
      matcher_.join(0, other, 0);
      EXPECT_EQ(session->error, "collective #" + std::to_string(number++) +
                                    " of the group ranks 3,5,6 differs: " + text);
      EXPECT_TRUE(session->over.has_happened()) << "nobody waits for the third";
      matcher_.join(2, all_reduce(4), 0);
      EXPECT_FALSE(matcher_.is_complete(*session));
    }
  });
}

TEST_F(CollectiveMatcherTest, ARankThatIsGoneIsNotWaitedFor) {
  in_a_rank([&] {
    const auto open = matcher_.join(0, all_reduce(4), 0);
    matcher_.leave(5, "threw (enough)");
    EXPECT_EQ(open->error,
              "rank 5 never came to collective #0 of the group ranks 3,5,6: threw (enough)");
    EXPECT_EQ(matcher_.join(0, all_reduce(4), 0)->error,
              "rank 5 never came to collective #1 of the group ranks 3,5,6: threw (enough)");
    matcher_.leave(7, "a rank of another group");
  });
}

TEST_F(CollectiveMatcherTest, ARankThatCameBeforeItWentIsCounted) {
  in_a_rank([&] {
    const auto session = matcher_.join(1, all_reduce(4), 0);
    matcher_.leave(5, "exited (3)");
    matcher_.join(0, all_reduce(4), 0);
    matcher_.join(2, all_reduce(4), 0);
    EXPECT_TRUE(matcher_.is_complete(*session));
  });
}

TEST_F(CollectiveMatcherTest, AWaitingRankNamesItsPeers) {
  in_a_rank([&] {
    const auto session = matcher_.join(1, all_reduce(4), 0);
    EXPECT_EQ(matcher_.waiting_text(*session, 1),
              "collective #0 of the group ranks 3,5,6, allreduce of 4 float32; ranks 3, 6 have not "
              "come");
    matcher_.join(0, all_reduce(4), 0);
    EXPECT_EQ(
        matcher_.waiting_text(*session, 1),
        "collective #0 of the group ranks 3,5,6, allreduce of 4 float32; rank 6 has not come");
  });
}

}  // namespace
}  // namespace lockstep::sim
