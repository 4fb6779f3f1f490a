#include "ddp/comm/watchdog.h"

#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <memory>

namespace lockstep {
namespace {

using namespace std::chrono_literals;

// Ranks that share a store; each waits for the given time, all in one thread.
class Watchdogs : public ::testing::Test {
 protected:
  struct Rank {
    std::unique_ptr<FailureNotice> notice;
    std::unique_ptr<Watchdog> wait;
  };

  Rank rank(int number, std::chrono::milliseconds timeout = 4s,
            const std::string& awaited = "all-reduce") {
    // Each rank in an instance of its own on one group.
    Rank made{std::make_unique<FailureNotice>(store_, number, awaited), nullptr};
    made.wait = std::make_unique<Watchdog>(made.notice.get(), number, 4, timeout, awaited);
    return made;
  }

  c10::intrusive_ptr<c10d::Store> store_ = c10::make_intrusive<c10d::HashStore>();
};

TEST_F(Watchdogs, NameTheRanksThatDoNotWait) {
  Rank here = rank(0), late_comer = rank(2);
  for (const auto waited : {0ms, 1000ms, 2000ms, 2600ms, 3200ms, 3800ms}) {
    here.wait->look(waited);
    if (waited >= 2000ms) late_comer.wait->look(waited - 1500ms);
  }
  // It began 1.5 s later, which is not too late to be seen.
  EXPECT_EQ(here.wait->who_does_not_wait(),
            "; these ranks do not wait as this one does: 1, 3 (slow, stopped, gone or cut off)");
}

TEST_F(Watchdogs, DoNotTakeOldSignsOfLifeForNewOnes) {
  Rank here = rank(0), gone = rank(1), second = rank(2), third = rank(3);
  for (Rank* each : {&gone, &second, &third}) each->wait->look(2000ms);
  here.wait->look(3000ms);
  for (Rank* each : {&second, &third}) each->wait->look(3500ms);
  EXPECT_EQ(here.wait->who_does_not_wait(),
            "; these ranks do not wait as this one does: 1 (slow, stopped, gone or cut off)");
}

TEST_F(Watchdogs, SayThatAllWait) {
  Rank here = rank(0);
  here.wait->look(3000ms);
  for (const int other : {1, 2, 3}) rank(other).wait->look(2000ms);
  EXPECT_EQ(here.wait->who_does_not_wait(), "; all ranks wait");
}

TEST_F(Watchdogs, SayWhatRanksThatWaitForSomethingElseWaitFor) {
  Rank here = rank(0, 4s, "barrier 'epoch' (collective 3)");
  Rank first = rank(1, 4s, "broadcast of buffers (collective 7)");
  Rank second = rank(2, 4s, "broadcast of buffers (collective 7)");
  here.wait->look(3000ms);
  for (Rank* each : {&first, &second}) each->wait->look(2000ms);
  EXPECT_EQ(here.wait->who_does_not_wait(),
            "; these ranks do not wait as this one does: 3 (slow, stopped, gone or cut off); ranks "
            "1 and 2 wait for broadcast of buffers (collective 7)");
}

TEST_F(Watchdogs, NameNobodyWhereTheyAreShortOrHaveNoStoreOrWereNotLookedAt) {
  Rank brief = rank(0, 1999ms);
  brief.wait->look(1900ms);
  EXPECT_EQ(brief.wait->who_does_not_wait(), "");
  Rank asleep = rank(0);
  asleep.wait->look(2100ms);
  EXPECT_EQ(asleep.wait->who_does_not_wait(), "");
  Watchdog alone(nullptr, 0, 4, 4s, "all-reduce");
  alone.look(3900ms);
  EXPECT_EQ(alone.who_does_not_wait(), "");
  store_ = nullptr;
  Rank without = rank(0);
  without.wait->look(3900ms);
  EXPECT_EQ(without.wait->who_does_not_wait(), "");
}

TEST_F(Watchdogs, SayThatTheStoreIsGone) {
  c10d::TCPStoreOptions options{.port = 0, .isServer = true, .waitWorkers = false};
  auto server = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
  store_ = c10::make_intrusive<c10d::TCPStore>(
      "127.0.0.1",
      c10d::TCPStoreOptions{
          .port = server->getPort(), .isServer = false, .waitWorkers = false, .timeout = 2000ms});
  Rank here = rank(0);
  here.wait->look(3000ms);
  server.reset();
  EXPECT_EQ(here.wait->who_does_not_wait(),
            "; nor does the store of the group answer: the process that serves it, mostly rank "
            "0's, is stopped, gone or cut off");
}

}  // namespace
}  // namespace lockstep
