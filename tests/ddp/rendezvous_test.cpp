#include "ddp/meeting/rendezvous.h"

#include "ddp/errors.h"
#include "ddp/init.h"
#include "ddp/meeting/connecting.h"
#include "tests/ddp/forked_world.h"

#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include <filesystem>
#include <future>
#include <thread>
#include <unistd.h>

namespace lockstep {
namespace {

using namespace std::chrono_literals;

// What one rank that meets in `store` is told; empty where all met.
std::string told(c10d::Store& store, int rank, int world_size,
                 std::chrono::milliseconds timeout = 20s) {
  try {
    meet_in(store, {.rank = rank, .world_size = world_size}, timeout);
    return "";
  } catch (const DisagreementError& error) {
    return std::string("disagreement: ") + error.what();
  } catch (const std::exception& error) {
    return error.what();
  }
}

// Ranks as threads that meet in one store; each entry is what one of them was told.
std::vector<std::string> all_told(c10d::Store& store, const std::vector<Standing>& standings) {
  std::vector<std::future<std::string>> ranks;
  for (const auto& standing : standings)
    ranks.push_back(std::async(std::launch::async, [&store, standing] {
      return told(store, standing.rank, standing.world_size);
    }));
  std::vector<std::string> out;
  for (auto& rank : ranks) out.push_back(rank.get());
  return out;
}

void expect_one_sentence(const std::vector<std::string>& told, const std::string& part) {
  for (const auto& sentence : told) {
    EXPECT_EQ(sentence, told.front());
    EXPECT_NE(sentence.find("disagreement: "), std::string::npos) << sentence;
    EXPECT_NE(sentence.find(part), std::string::npos) << sentence;
  }
}

TEST(Rendezvous, RanksOfOneWorldMeetInAFreshStore) {
  for (int size = 1; size <= 5; ++size) {
    c10d::HashStore store;
    std::vector<Standing> standings;
    for (int rank = 0; rank < size; ++rank) standings.push_back({rank, size});
    EXPECT_EQ(all_told(store, standings), std::vector<std::string>(static_cast<size_t>(size)));
  }
}

TEST(Rendezvous, AStoreInWhichAWorldMetBeforeIsRefusedOnEveryRank) {
  c10d::HashStore store;
  EXPECT_EQ(all_told(store, {{0, 2}, {1, 2}}), std::vector<std::string>(2));
  for (const auto& sentence : all_told(store, {{0, 2}, {1, 2}}))
    EXPECT_NE(sentence.find("has met here before"), std::string::npos) << sentence;
}

// The earlier run was killed when one rank alone had come, whichever it was.
TEST(Rendezvous, TheTracesOfHalfAWorldAreRefusedOnEveryRank) {
  for (const int early : {0, 1, 2}) {
    c10d::HashStore store;
    store.add("lockstep/rank_is_here/" + std::to_string(early), 1);
    store.add("lockstep/ranks_here", 1);
    expect_one_sentence(all_told(store, {{0, 3}, {1, 3}, {2, 3}}),
                        "rank " + std::to_string(early) + " has met here before");
  }
}

// The earlier run waited in vain; or it is this one, and the rest is late.
TEST(Rendezvous, AStoreThatWasGivenUpIsRefusedOnEveryRank) {
  for (const int early : {0, 1, 2}) {
    c10d::HashStore store;
    EXPECT_NE(told(store, early, 3, 200ms).find("did not come"), std::string::npos);
    expect_one_sentence(all_told(store, {{0, 3}, {1, 3}, {2, 3}}),
                        "have given up: these ranks did not come: ");
  }
}

TEST(Rendezvous, TwoProcessesWithOneRankAreRefused) {
  c10d::HashStore store;
  expect_one_sentence(all_told(store, {{0, 2}, {0, 2}}), "two processes have this rank");
}

TEST(Rendezvous, DifferentWorldSizesAreRefusedOnEveryRank) {
  c10d::HashStore store;
  expect_one_sentence(all_told(store, {{0, 2}, {1, 3}}), "different world sizes");
}

TEST(Rendezvous, RanksThatDoNotComeAreNamed) {
  c10d::HashStore store;
  EXPECT_EQ(told(store, 1, 4, 200ms), "these ranks did not come: 0, 2, 3 (these did: 1)");
}

TEST(Rendezvous, OfManyRanksThatDoNotComeTheSentenceIsShort) {
  c10d::HashStore store;
  EXPECT_EQ(told(store, 5, 1024, 200ms), "these ranks did not come: 0-4, 6-1023 (these did: 5)");
}

// Rank 0 may hold the store, and must not leave before the other one has read why.
TEST(Rendezvous, AWorldThatDoesNotFillGivesEveryRankThatCameOneSentence) {
  c10d::HashStore store;
  auto other = std::async(std::launch::async, [&] { return told(store, 2, 3, 20s); });
  while (!store.check({"lockstep/rank_is_here/2"})) std::this_thread::yield();
  const std::string sentence = told(store, 0, 3, 200ms);
  EXPECT_EQ(sentence, "these ranks did not come: 1 (these did: 0, 2)");
  EXPECT_EQ(other.get(), sentence);
}

TEST(Rendezvous, DifferentVersionsAreRefusedOnEveryRank) {
  c10d::HashStore store;
  const auto meet = [&](int rank, const std::string& version) -> std::string {
    try {
      meet_in(store, {.rank = rank, .world_size = 3}, 20s, {.version = version});
      return "met";
    } catch (const DisagreementError& error) {
      return std::string("disagreement: ") + error.what();
    }
  };
  std::vector<std::future<std::string>> ranks;
  for (int rank = 0; rank < 3; ++rank) {
    ranks.push_back(std::async(std::launch::async, meet, rank, rank == 1 ? "0.2.0" : "0.1.0"));
  }
  std::vector<std::string> sentences;
  for (auto& rank : ranks) sentences.push_back(rank.get());
  expect_one_sentence(sentences, "the ranks run different versions: rank ");
  expect_one_sentence(sentences, "0.1.0");
  expect_one_sentence(sentences, "0.2.0");
}

TEST(Rendezvous, WhoCannotTakePartTellsAll) {
  c10d::HashStore store;
  auto other = std::async(std::launch::async, [&] { return told(store, 0, 2); });
  EXPECT_THROW(meet_in(store, {.rank = 1, .world_size = 2}, 20s, {.objection = "its disk is full"}),
               DisagreementError);
  EXPECT_EQ(other.get(), "disagreement: rank 1 cannot take part: its disk is full");
}

TEST(Rendezvous, RanksThatDecidedForDifferentBackendsAreToldWhatAndWhy) {
  c10d::HashStore store;
  const auto meet = [&](int rank, const Introduction& introduction) {
    try {
      meet_in(store, {.rank = rank, .world_size = 2}, 20s, introduction);
      return std::string("met");
    } catch (const DisagreementError& error) {
      return std::string("disagreement: ") + error.what();
    }
  };
  auto other = std::async(std::launch::async, meet, 0,
                          Introduction{.backends = "cpu:gloo,cuda:nccl by default"});
  const std::string own = meet(1, {.backends = "cpu:gloo by default",
                                   .backends_because = "no nccl: this machine has no GPU"});
  EXPECT_EQ(own, other.get());
  for (const char* const part :
       {"disagreement: the ranks decided for different backends: rank ",
        "cpu:gloo by default (no nccl: this machine has no GPU)", "cpu:gloo,cuda:nccl by default",
        "InitOptions::backend, equal on all ranks, leaves nothing to decide"})
    EXPECT_NE(own.find(part), std::string::npos) << own;
}

// GPUs of hosts of different makers, say.
TEST(Rendezvous, OneDecisionForDifferentReasonsIsNoDisagreement) {
  c10d::HashStore store;
  const auto meet = [&](int rank, const std::string& because) {
    meet_in(store, {.rank = rank, .world_size = 2}, 20s,
            {.backends = "cpu:gloo", .backends_because = because});
  };
  auto other = std::async(std::launch::async, meet, 0, "no nccl: no GPU");
  EXPECT_NO_THROW(meet(1, "no nccl: not built"));
  other.get();
}

TEST(Rendezvous, RankZeroReadsWhatAllSayAndAnswersThem) {
  c10d::HashStore store;
  const auto ask = [&](int rank) {
    return ask_rank_zero(store, {.rank = rank, .world_size = 3}, 20s, std::to_string(rank * 10),
                         [&](const std::vector<std::string>& said) {
                           return std::to_string(rank) + " read " + said[0] + "," + said[1] + "," +
                                  said[2];
                         });
  };
  auto one = std::async(std::launch::async, ask, 1);
  auto two = std::async(std::launch::async, ask, 2);
  EXPECT_EQ(ask(0), "0 read 0,10,20");
  EXPECT_EQ(one.get(), "0 read 0,10,20");
  EXPECT_EQ(two.get(), "0 read 0,10,20");
}

// What one rank that has met is told of connecting; empty where all have.
std::string told_of_connecting(const c10::intrusive_ptr<c10d::Store>& store,
                               const Standing& standing, std::chrono::milliseconds timeout,
                               const std::string& problem) {
  try {
    connect_in(store, standing, timeout, [problem] {
      if (!problem.empty()) throw std::runtime_error(problem);
    });
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

TEST(Rendezvous, ARankThatCannotConnectIsEverybodysReason) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  auto other = std::async(std::launch::async, [&] {
    return told_of_connecting(store, {.rank = 0, .world_size = 2}, 20s, "");
  });
  const std::string own =
      told_of_connecting(store, {.rank = 1, .world_size = 2}, 20s, "over gloo: no memory");
  EXPECT_EQ(own, "rank 1 cannot connect over gloo: no memory");
  EXPECT_EQ(other.get(), own);
}

TEST(Rendezvous, RanksThatDoNotConnectAreNamed) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  EXPECT_EQ(told_of_connecting(store, {.rank = 1, .world_size = 3}, 200ms, ""),
            "all ranks came, and nothing more was heard of these: 0, 2 (these wait to be "
            "connected: 1)");
}

// One that is still busy answers when it is asked who is there.
TEST(Rendezvous, RanksThatAreStillConnectingAreNamed) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  const auto end = std::make_shared<std::promise<void>>();
  auto busy = std::async(std::launch::async, [&] {
    try {
      connect_in(store, {.rank = 0, .world_size = 2}, 20s, [end] { end->get_future().wait(); });
      return std::string("connected");
    } catch (const std::exception& error) {
      return std::string(error.what());
    }
  });
  const std::string own = told_of_connecting(store, {.rank = 1, .world_size = 2}, 200ms, "");
  EXPECT_EQ(own, "all ranks came, and these did not connect: 0 (these did: 1)");
  EXPECT_EQ(busy.get(), own);
  end->set_value();
}

// A rank that came and then died has left its trace.
TEST(Rendezvous, RanksThatCameAndWereNotHeardOfAgainAreNamed) {
  c10d::HashStore store;
  store.add("lockstep/rank_is_here/1", 1);
  store.add("lockstep/ranks_here", 1);
  EXPECT_EQ(told(store, 0, 2, 200ms), "all ranks came, and nothing more was heard of these: 1");
}

// It comes when the others have met, or before they have: then all are refused.
TEST(Rendezvous, AProcessTooManyIsToldSoWheneverItComes) {
  c10d::HashStore store;
  EXPECT_EQ(all_told(store, {{0, 2}, {1, 2}}), std::vector<std::string>(2));
  const std::string late = told(store, 1, 2);
  EXPECT_NE(late.find("rank 1 has met here before: two processes have this rank"),
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
