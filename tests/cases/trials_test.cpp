#include "harness/cases/trials.h"

#include "tests/campaign/toys.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

using Outcomes = std::vector<std::optional<Outcome>>;

std::vector<Case> cases(const std::vector<int64_t>& values) {
  return toys::cases_of(toys::holds_unless_one(), values);
}

// The outcome of a case is in its value: 0 passes, 1 shows the failure, 2 is another.
struct Scripted : Trials {
  Outcomes run(const std::vector<Case>& all, Outcome wanted, TrialTime) override {
    Outcomes out(all.size());
    for (size_t i = 0; i < all.size() && i < runs_most; ++i) {
      ++runs;
      const auto value = toys::value_of(all[i]) % 10;
      out[i] = value == 1 ? Outcome::shows : value == 0 ? Outcome::passes : Outcome::other;
      if (out[i] == wanted && !runs_ahead) break;
    }
    return out;
  }
  int runs = 0;
  size_t runs_most = 100;
  bool runs_ahead = false;
};

TEST(Search, TheFirstWantedCaseIsFound) {
  Scripted trials;
  Search search(trials);
  search.allow(TrialTime::max(), 100);
  EXPECT_EQ(search.first(cases({10, 2, 20, 11, 21}), Outcome::shows), 3u);
  EXPECT_EQ(search.first(cases({31, 2, 50, 60}), Outcome::passes), 2u);
  EXPECT_EQ(search.first(cases({40, 41}), Outcome::other), std::nullopt);
  EXPECT_EQ(search.ended(), Search::End::none);
  EXPECT_EQ(search.outcome(cases({2}).front()), Outcome::other);
  EXPECT_EQ(search.outcome(cases({99}).front()), std::nullopt);
}

// As a loop over all cases one by one finds it, on lists longer than what is run at once.
TEST(Search, TheFirstWantedCaseIsFoundFromAnywhereOnAndRoundTheEnd) {
  EXPECT_TRUE(rc::check([] {
    const auto values = *rc::gen::resize(
        150, rc::gen::container<std::vector<int64_t>>(rc::gen::inRange<int64_t>(0, 50)));
    RC_PRE(!values.empty());
    const auto begin = *rc::gen::inRange<size_t>(0, values.size());
    const auto wanted = *rc::gen::element<int64_t>(13, 29, 50);
    std::optional<size_t> expected;
    for (size_t i = 0; i < values.size() && !expected; ++i)
      if (values[(begin + i) % values.size()] == wanted) expected = (begin + i) % values.size();
    std::vector<int64_t> scripted(values);  // 1 shows the failure
    for (auto& value : scripted) value = 10 * value + (value == wanted);
    Scripted trials;
    trials.runs_most = 1000;
    Search search(trials);
    search.allow(TrialTime::max(), 1000);
    RC_ASSERT(search.first(cases(scripted), Outcome::shows, begin) == expected);
  }));
}

TEST(Search, AKnownCaseNeitherRunsNorCountsAgain) {
  Scripted trials;
  Search search(trials);
  search.allow(TrialTime::max(), 100);
  EXPECT_EQ(search.first(cases({10, 20, 10, 11}), Outcome::shows), 3u);
  EXPECT_EQ(search.first(cases({20, 11, 30}), Outcome::shows), 1u);
  EXPECT_EQ(trials.runs, 3);
  EXPECT_EQ(search.runs(), 3);
}

TEST(Search, ACaseThatShowedTheFailureRunsAgainOnceFewerCasesDo) {
  Scripted trials;
  Search search(trials);
  search.allow(TrialTime::max(), 100);
  EXPECT_EQ(search.first(cases({10, 11}), Outcome::shows), 1u);
  search.narrow();
  EXPECT_EQ(search.first(cases({10, 11}), Outcome::shows), 1u);
  EXPECT_EQ(trials.runs, 3) << "what passed still does";
  EXPECT_EQ(search.runs(), 2);
}

TEST(Search, ACaseThatRanAheadDoesNotCountBeforeItsTurn) {
  Scripted trials;
  trials.runs_ahead = true;
  Search search(trials);
  search.allow(TrialTime::max(), 100);
  EXPECT_EQ(search.first(cases({10, 11, 20, 30}), Outcome::shows), 1u);
  EXPECT_EQ(trials.runs, 4);
  EXPECT_EQ(search.runs(), 2);
  EXPECT_EQ(search.first(cases({20, 30}), Outcome::shows), std::nullopt);
  EXPECT_EQ(trials.runs, 4);
  EXPECT_EQ(search.runs(), 4);
}

TEST(Search, ItEndsWithItsRunsOrItsTime) {
  Scripted trials;
  Search search(trials);
  search.allow(TrialTime::max(), 2);
  EXPECT_EQ(search.first(cases({10, 20, 30, 11}), Outcome::shows), std::nullopt);
  EXPECT_EQ(search.ended(), Search::End::runs);
  EXPECT_EQ(trials.runs, 2);
  search.allow(TrialTime::max(), 100);
  trials.runs_most = 1;
  EXPECT_EQ(search.first(cases({10, 20, 30, 11}), Outcome::shows), std::nullopt);
  EXPECT_EQ(search.ended(), Search::End::time);
  trials.runs_most = 100;
  search.allow(TrialTime::max(), 100);
  EXPECT_EQ(search.first(cases({10, 20, 30, 11}), Outcome::shows), 3u);
  EXPECT_EQ(search.ended(), Search::End::none);
}

TEST(TrialList, CasesBeforeTheFirstWantedOneAreNeededAndNoOthers) {
  TrialList list(cases({0, 0, 0, 0, 0}), Outcome::shows);
  EXPECT_EQ(list.next(), 0u);
  EXPECT_EQ(list.next(), 1u);
  EXPECT_EQ(list.next(), 2u);
  list.record(2, Outcome::shows);
  EXPECT_EQ(list.next(), std::nullopt);
  EXPECT_FALSE(list.complete()) << "an earlier one may show it too";
  list.record(1, Outcome::passes);
  EXPECT_FALSE(list.complete());
  list.record(0, Outcome::shows);
  EXPECT_TRUE(list.complete());
  EXPECT_EQ(list.outcomes()[0], Outcome::shows);
}

TEST(TrialList, LaterCasesThatAreOutAreNotWaitedFor) {
  TrialList list(cases({0, 0}), Outcome::shows);
  list.next();
  list.next();
  list.record(0, Outcome::shows);
  EXPECT_TRUE(list.complete());
}

TEST(TrialList, AClosedListWaitsForWhatIsOut) {
  TrialList list(cases({0, 0, 0}), Outcome::shows);
  list.next();
  list.close();
  EXPECT_EQ(list.next(), std::nullopt);
  EXPECT_FALSE(list.complete());
  list.record(0, Outcome::passes);
  EXPECT_TRUE(list.complete());
  EXPECT_EQ(list.outcomes(), (Outcomes{Outcome::passes, {}, {}}));
}

TEST(TrialList, ARunThatWasEndedEndsTheList) {
  TrialList list(cases({0, 0, 0}), Outcome::shows);
  list.next();
  list.record(0, {});
  EXPECT_EQ(list.next(), std::nullopt);
  EXPECT_TRUE(list.complete());
}

}  // namespace
}  // namespace lockstep
