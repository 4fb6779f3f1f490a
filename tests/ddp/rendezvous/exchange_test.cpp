#include "ddp/rendezvous/exchange.h"

#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include <future>
#include <thread>

namespace lockstep {
namespace {

using namespace std::chrono_literals;

const std::string kName = "of the weather";

Exchanged say(c10d::Store& store, int rank, int world_size, const std::string& text,
              std::chrono::milliseconds timeout = 20s) {
  return exchange(store, kName, {.rank = rank, .world_size = world_size}, text,
                  deadline_in(timeout));
}

// "0: rain, 2: snow", in the order of arrival.
std::string words_of(const Exchanged& result) {
  std::string words;
  for (const auto& [rank, text] : result.entries)
    words += (words.empty() ? "" : ", ") + std::to_string(rank) + ": " + text;
  return words;
}

TEST(Exchange, GivesEveryRankTheTextsOfAll) {
  const std::string odd("1:\n\0", 4);  // a text may hold anything
  c10d::HashStore store;
  auto other = std::async(std::launch::async, [&] { return say(store, 1, 2, odd); });
  const Exchanged own = say(store, 0, 2, "");
  EXPECT_EQ(words_of(own), words_of(other.get()));
  ASSERT_EQ(own.entries.size(), 2u);
  EXPECT_EQ(own.entries[own.entries[0].rank == 1 ? 0 : 1].text, odd);
  EXPECT_TRUE(own.has_own);
  EXPECT_TRUE(own.missing(2).empty());
}

TEST(Exchange, EndsForAllAtTheFirstDeadlineAndNamesTheMissingRanks) {
  c10d::HashStore store;
  auto patient = std::async(std::launch::async, [&] { return say(store, 3, 4, "rain"); });
  while (!store.check({kName + "/text/1"})) std::this_thread::yield();
  const Exchanged own = say(store, 1, 4, "snow", 1ms);
  EXPECT_EQ(words_of(own), "3: rain, 1: snow");
  EXPECT_EQ(words_of(patient.get()), words_of(own));
  EXPECT_EQ(own.present(), (std::vector<int>{1, 3}));
  EXPECT_EQ(own.missing(4), (std::vector<int>{0, 2}));
}

TEST(Exchange, AProcessThatComesLaterReadsTheSameResultWithoutItsText) {
  c10d::HashStore store;
  EXPECT_FALSE(result_of_exchange(store, kName).has_value());
  say(store, 0, 2, "rain", 1ms);
  const Exchanged late = say(store, 1, 2, "snow");
  EXPECT_EQ(words_of(late), "0: rain");
  EXPECT_FALSE(late.has_own);
  EXPECT_EQ(words_of(result_of_exchange(store, kName).value()), "0: rain");
}

TEST(Exchange, ARankThatComesTwiceIsThereTwice) {
  c10d::HashStore store;
  auto twin = std::async(std::launch::async, [&] { return say(store, 1, 2, "rain"); });
  const Exchanged own = say(store, 1, 2, "rain");
  EXPECT_EQ(words_of(own), "1: rain, 1: rain");
  EXPECT_TRUE(own.has_own && twin.get().has_own);
  EXPECT_EQ(own.missing(2), std::vector<int>{0});
}

TEST(Exchange, AProcessThatDiedBeforeItWroteItsTextIsMissing) {
  c10d::HashStore store;
  store.add(kName + "/arrivals", 1);
  const Exchanged own = say(store, 0, 2, "rain", 1ms);
  EXPECT_EQ(words_of(own), "0: rain");
  EXPECT_EQ(own.missing(2), std::vector<int>{1});
}

}  // namespace
}  // namespace lockstep
