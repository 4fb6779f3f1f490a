#include "ddp/rendezvous/rendezvous.h"

#include "ddp/errors.h"
#include "ddp/init.h"
#include "tests/ddp/forked_world.h"

#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include <algorithm>
#include <filesystem>
#include <future>
#include <thread>
#include <unistd.h>

namespace lockstep {
namespace {

using namespace std::chrono_literals;

// The error that one rank receives from a rendezvous in `store`; empty where all succeeded.
std::string reported(c10d::Store& store, int rank, int world_size,
                     std::chrono::milliseconds timeout = 20s,
                     const Introduction& introduction = {}) {
  try {
    rendezvous_in(store, {.rank = rank, .world_size = world_size}, timeout, introduction);
    return "";
  } catch (const DisagreementError& error) {
    return std::string("disagreement: ") + error.what();
  } catch (const std::exception& error) {
    return error.what();
  }
}

// The same where ranks are to agree on one thing besides.
std::string sentence_with(const Property& property, c10d::Store& store, int rank, int world_size) {
  return reported(store, rank, world_size, 20s, {.description = {.properties = {property}}});
}

// Ranks as threads that rendezvous in one store; each entry is the error of one of them.
std::vector<std::string> sentences_of_all(c10d::Store& store,
                                          const std::vector<RankAndSize>& standings) {
  std::vector<std::future<std::string>> ranks;
  for (const auto& position : standings)
    ranks.push_back(std::async(std::launch::async, [&store, position] {
      return reported(store, position.rank, position.world_size);
    }));
  std::vector<std::string> out;
  for (auto& rank : ranks) out.push_back(rank.get());
  return out;
}

// A store whose client is killed where it begins to wait for others; what it wrote stays.
class StoreOfTheKilled : public c10d::HashStore {
 public:
  using HashStore::wait;

  void wait(const std::vector<std::string>& keys,
            const std::chrono::milliseconds& timeout) override {
    if (kills_) throw Killed();
    HashStore::wait(keys, timeout);
  }

  // One rank comes, and is killed before the others have come.
  void leave_traces_of(const RankAndSize& position) {
    kills_ = true;
    EXPECT_THROW(rendezvous_in(*this, position, 20s), Killed);
    kills_ = false;
  }

 private:
  struct Killed {};
  bool kills_ = false;
};

// A store in which nothing ever comes. It keeps the longest time for which it was awaited.
class StoreOfOneRank : public c10d::HashStore {
 public:
  using HashStore::wait;

  void wait(const std::vector<std::string>& keys,
            const std::chrono::milliseconds& timeout) override {
    longest_ = std::max(longest_, timeout);
    HashStore::wait(keys, std::min(timeout, 1ms));
  }

  std::chrono::milliseconds longest() const { return longest_; }

 private:
  std::chrono::milliseconds longest_{0};
};

void expect_one_sentence(const std::vector<std::string>& reported, const std::string& part) {
  for (const auto& sentence : reported) {
    EXPECT_EQ(sentence, reported.front());
    EXPECT_NE(sentence.find("disagreement: "), std::string::npos) << sentence;
    EXPECT_NE(sentence.find(part), std::string::npos) << sentence;
  }
}

TEST(Rendezvous, RanksOfOneWorldFindEachOtherInAFreshStore) {
  for (int size = 1; size <= 5; ++size) {
    c10d::HashStore store;
    std::vector<RankAndSize> standings;
    for (int rank = 0; rank < size; ++rank) standings.push_back({rank, size});
    EXPECT_EQ(sentences_of_all(store, standings),
              std::vector<std::string>(static_cast<size_t>(size)));
  }
}

TEST(Rendezvous, AStoreInWhichAWorldMetBeforeIsRefusedOnEveryRank) {
  c10d::HashStore store;
  EXPECT_EQ(sentences_of_all(store, {{0, 2}, {1, 2}}), std::vector<std::string>(2));
  for (const auto& sentence : sentences_of_all(store, {{0, 2}, {1, 2}}))
    EXPECT_NE(sentence.find("has arrived here before"), std::string::npos) << sentence;
}

// The earlier run was killed when one rank alone had come, whichever it was.
TEST(Rendezvous, TheTracesOfHalfAWorldAreRefusedOnEveryRank) {
  for (const int early : {0, 1, 2}) {
    StoreOfTheKilled store;
    store.leave_traces_of({.rank = early, .world_size = 3});
    expect_one_sentence(sentences_of_all(store, {{0, 3}, {1, 3}, {2, 3}}),
                        "rank " + std::to_string(early) + " has arrived here before");
  }
}

// The earlier run waited in vain; or it is this one, and the rest is late.
TEST(Rendezvous, AStoreThatWasGivenUpIsRefusedOnEveryRank) {
  for (const int early : {0, 1, 2}) {
    c10d::HashStore store;
    EXPECT_NE(reported(store, early, 3, 200ms).find("did not come"), std::string::npos);
    expect_one_sentence(sentences_of_all(store, {{0, 3}, {1, 3}, {2, 3}}),
                        "have given up: these ranks did not come: ");
  }
}

TEST(Rendezvous, TwoProcessesWithOneRankAreRefused) {
  c10d::HashStore store;
  expect_one_sentence(sentences_of_all(store, {{0, 2}, {0, 2}}), "two processes have this rank");
}

TEST(Rendezvous, DifferentWorldSizesAreRefusedOnEveryRank) {
  c10d::HashStore store;
  expect_one_sentence(sentences_of_all(store, {{0, 2}, {1, 3}}),
                      "ranks disagree on the world size: rank 0 has 2; rank 1 has 3");
}

TEST(Rendezvous, TheRankThatComesFirstWaitsForTheWholeTimeout) {
  StoreOfOneRank store;
  EXPECT_NE(reported(store, 0, 2).find("did not come: 1"), std::string::npos);
  EXPECT_GT(store.longest(), 10s);
}

TEST(Rendezvous, RanksThatDoNotComeAreNamed) {
  c10d::HashStore store;
  EXPECT_EQ(reported(store, 1, 4, 200ms), "these ranks did not come: 0, 2, 3 (these did: 1)");
}

TEST(Rendezvous, OfManyRanksThatDoNotComeTheSentenceIsShort) {
  c10d::HashStore store;
  EXPECT_EQ(reported(store, 5, 1024, 200ms),
            "these ranks did not come: 0-4, 6-1023 (these did: 5)");
}

// Rank 0 may hold the store, and must not leave before the other one has read why.
TEST(Rendezvous, AWorldThatDoesNotFillGivesEveryRankThatCameOneSentence) {
  c10d::HashStore store;
  auto other = std::async(std::launch::async, [&] { return reported(store, 2, 3, 20s); });
  while (!store.check({"lockstep/arrival/text/1"})) std::this_thread::yield();
  const std::string sentence = reported(store, 0, 3, 200ms);
  EXPECT_EQ(sentence, "these ranks did not come: 1 (these did: 0, 2)");
  EXPECT_EQ(other.get(), sentence);
}

TEST(Rendezvous, DifferentVersionsAreRefusedOnEveryRank) {
  c10d::HashStore store;
  std::vector<std::future<std::string>> ranks;
  for (int rank = 0; rank < 3; ++rank) {
    ranks.push_back(std::async(std::launch::async, [&store, rank] {
      return sentence_with({"the version", rank == 1 ? "0.2.0" : "0.1.0"}, store, rank, 3);
    }));
  }
  std::vector<std::string> sentences;
  for (auto& rank : ranks) sentences.push_back(rank.get());
  expect_one_sentence(sentences, "ranks disagree on the version: rank");
  expect_one_sentence(sentences, "0.1.0");
  expect_one_sentence(sentences, "rank 1 has 0.2.0");
}

TEST(Rendezvous, ARankThatCannotTakePartReportsItToAll) {
  c10d::HashStore store;
  auto other = std::async(std::launch::async, [&] { return reported(store, 0, 2); });
  EXPECT_THROW(rendezvous_in(store, {.rank = 1, .world_size = 2}, 20s,
                             {.description = {.validation_error = "its disk is full"}}),
               DisagreementError);
  EXPECT_EQ(other.get(), "disagreement: rank 1 cannot take part: its disk is full");
}

TEST(Rendezvous, RanksThatDecidedForDifferentBackendsLearnWhichAndWhy) {
  c10d::HashStore store;
  auto other = std::async(std::launch::async, [&] {
    return sentence_with({"the backends", "cpu:gloo,cuda:nccl by default"}, store, 0, 2);
  });
  const std::string own = sentence_with(
      {"the backends", "cpu:gloo by default", "no nccl: this machine has no GPU"}, store, 1, 2);
  EXPECT_EQ(own, other.get());
  EXPECT_EQ(own,
            "disagreement: ranks disagree on the backends: rank 0 has cpu:gloo,cuda:nccl by "
            "default; rank 1 has cpu:gloo by default (no nccl: this machine has no GPU)");
}

// GPUs of hosts of different makers, say.
TEST(Rendezvous, OneDecisionForDifferentReasonsIsNoDisagreement) {
  c10d::HashStore store;
  auto other = std::async(std::launch::async, [&] {
    return sentence_with({"the backends", "cpu:gloo", "no nccl: no GPU"}, store, 0, 2);
  });
  EXPECT_EQ(sentence_with({"the backends", "cpu:gloo", "no nccl: not built"}, store, 1, 2), "");
  EXPECT_EQ(other.get(), "");
}

// The errors of one rank about the places of two.
std::string report_of_places(c10d::Store& store, int rank, const CheckPlaces& check_places) {
  try {
    std::string all;
    for (const std::string& place :
         rendezvous_in(store, {.rank = rank, .world_size = 2}, 20s,
                       {.place = "place " + std::to_string(rank)}, check_places))
      all += place + ";";
    return all;
  } catch (const DisagreementError& error) {
    return std::string("disagreement: ") + error.what();
  }
}

TEST(Rendezvous, EveryRankReadsThePlacesOfAll) {
  c10d::HashStore store;
  auto other = std::async(std::launch::async, [&] { return report_of_places(store, 1, {}); });
  EXPECT_EQ(report_of_places(store, 0, {}), "place 0;place 1;");
  EXPECT_EQ(other.get(), "place 0;place 1;");
}

TEST(Rendezvous, PlacesThatCannotBeAreRefusedOnEveryRank) {
  c10d::HashStore store;
  const auto check = [](const std::vector<std::string>& places) {
    return "no room at " + places.at(1);
  };
  auto other = std::async(std::launch::async, [&] { return report_of_places(store, 1, check); });
  EXPECT_EQ(report_of_places(store, 0, check), "disagreement: no room at place 1");
  EXPECT_EQ(other.get(), "disagreement: no room at place 1");
}

// A rank that came and then died has left its trace.
TEST(Rendezvous, RanksThatArrivedAndThenFellSilentAreNamed) {
  StoreOfTheKilled store;
  store.leave_traces_of({.rank = 1, .world_size = 2});
  EXPECT_EQ(reported(store, 0, 2, 200ms), "all ranks came, and these did not answer: 1");
}

// It comes when the others have met, or before they have: then all are refused.
TEST(Rendezvous, AProcessTooManyIsRefusedWheneverItComes) {
  c10d::HashStore store;
  EXPECT_EQ(sentences_of_all(store, {{0, 2}, {1, 2}}), std::vector<std::string>(2));
  const std::string late = reported(store, 1, 2);
  EXPECT_NE(late.find("rank 1 has arrived here before: two processes have this rank"),
            std::string::npos)
      << late;
}

// A second run with the file that the first one left, as a job that was killed leaves it.
TEST(Rendezvous, AStaleStoreFileGivesEveryRankOneSentence) {
  const auto folder =
      std::filesystem::temp_directory_path() / ("rendezvous_test." + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  const auto reports = [&] {
    return testing::run_world(2, [&](const testing::Group& group) {
      group->barrier()->wait();  // a rank that leaves while another still connects breaks that off
      // Never destroyed: the last one to be would remove the file.
      const c10::intrusive_ptr<c10d::Store> file(
          c10::make_intrusive<c10d::FileStore>((folder / "store").string(), 2).release(),
          c10::raw::DontIncreaseRefcount{});
      c10::raw::intrusive_ptr::incref(file.get());
      init_process_group(
          {.store = file, .rank = group->getRank(), .world_size = 2, .timeout = 20s});
      return std::string("met");
    });
  };
  EXPECT_EQ(reports(), std::vector<std::string>(2, "met"));
  for (const auto& report : reports()) {
    EXPECT_EQ(report.find("DisagreementError: rank "), 0u) << report;
    EXPECT_NE(report.find("used by an earlier run (a stale file?)"), std::string::npos) << report;
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace lockstep
