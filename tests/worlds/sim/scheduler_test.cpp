#include "harness/worlds/sim/scheduler.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <thread>

namespace lockstep::sim {
namespace {

using namespace std::chrono_literals;
using State = Scheduler::State;

constexpr Nanoseconds kLimit = 10s;

const What kSomething = [] { return "something"; };

// One for all tests, as a host has one for all cases.
RankThreads& rank_threads() {
  static RankThreads rank_threads;
  return rank_threads;
}

// Without a lock: the scheduler is what keeps ranks apart.
TEST(Scheduler, OneRankRunsAtATimeAndInTheSameOrderForTheSameSchedule) {
  const auto order = [](const Schedule& schedule) {
    std::vector<int> seen;
    Scheduler scheduler(rank_threads(), 4, Chooser(schedule, 4), kLimit);
    scheduler.run([&](int rank) {
      for (int i = 0; i < 10; ++i) {
        seen.push_back(rank);
        scheduler.yield();
      }
    });
    return seen;
  };
  const auto first = order({.policy = SchedulePolicy::uniform, .seed = 3});
  EXPECT_EQ(first.size(), 40u);
  EXPECT_EQ(order({.policy = SchedulePolicy::uniform, .seed = 3}), first);
  EXPECT_NE(order({.policy = SchedulePolicy::uniform, .seed = 4}), first);
}

TEST(Scheduler, AThreadThatARankHasStartedIsRefused) {
  Scheduler scheduler(rank_threads(), 2, Chooser({.policy = SchedulePolicy::uniform, .seed = 1}, 2),
                      kLimit, {.are_of_ranks_alone = true});
  scheduler.run([&](int) {
    EXPECT_NO_THROW(scheduler.require_thread_of_rank());
    std::thread([&] {
      EXPECT_THROW(scheduler.require_thread_of_rank(), std::runtime_error);
    }).join();
  });
}

TEST(Scheduler, ManyRanksTakeTurns) {
  const int ranks = 200;
  int turns = 0;
  std::atomic<int> at_once = 0;
  Scheduler scheduler(rank_threads(), ranks,
                      Chooser({.policy = SchedulePolicy::uniform, .seed = 1}, ranks), kLimit);
  const auto ends = scheduler.run([&](int) {
    for (int i = 0; i < 5; ++i) {
      EXPECT_EQ(++at_once, 1);
      ++turns;
      --at_once;
      scheduler.yield();
    }
  });
  EXPECT_EQ(turns, 5 * ranks);
  for (const auto& standing : ends) EXPECT_EQ(standing.state, State::ended);
}

TEST(Scheduler, AnEventWakesThoseThatWaitAndTheirClocksReachItsTime) {
  Event event;
  std::vector<Nanoseconds> woke(3);
  Scheduler scheduler(rank_threads(), 3, Chooser({}, 3), kLimit);
  scheduler.run([&](int rank) {
    if (rank == 2) {
      scheduler.advance(5s);
      return scheduler.happen(event, 7s);
    }
    scheduler.advance(rank * 8s);
    EXPECT_TRUE(scheduler.wait(event, kSomething));
    woke[static_cast<size_t>(rank)] = scheduler.now();
  });
  EXPECT_EQ(woke[0], 7s);
  EXPECT_EQ(woke[1], 8s) << "it came later than the event";
}

TEST(Scheduler, AWaitThatNothingCanEndEndsAtOnce) {
  auto& event = *new Event;  // the ranks that wait for it are never destroyed
  auto& scheduler = *new Scheduler(rank_threads(), 3, Chooser({}, 3), kLimit);
  const auto ends = scheduler.run([&](int rank) {
    if (rank == 1) return;
    scheduler.wait(event, [rank] { return "what rank " + std::to_string(rank) + " wants"; });
    ADD_FAILURE() << "it went on";
  });
  EXPECT_EQ(ends[0].state, State::waiting);
  EXPECT_EQ(ends[0].waits_for, "what rank 0 wants");
  EXPECT_EQ(ends[1].state, State::ended);
  EXPECT_EQ(ends[2].waits_for, "what rank 2 wants");
}

TEST(Scheduler, TimeoutsEndInTheOrderOfTheirTimesOnceNobodyElseCanRun) {
  Event never;
  std::vector<int> order;
  Scheduler scheduler(rank_threads(), 3, Chooser({}, 3), kLimit);
  scheduler.run([&](int rank) {
    const std::vector<Nanoseconds> timeouts{3s, 1s, 2s};
    EXPECT_FALSE(scheduler.wait(never, kSomething, timeouts[static_cast<size_t>(rank)]));
    EXPECT_EQ(scheduler.now(), timeouts[static_cast<size_t>(rank)]);
    order.push_back(rank);
  });
  EXPECT_EQ(order, (std::vector<int>{1, 2, 0}));
}

TEST(Scheduler, WhatHappensTooLateIsATimeout) {
  Event event;
  Scheduler scheduler(rank_threads(), 2, Chooser({}, 2), kLimit);
  scheduler.run([&](int rank) {
    if (rank == 1) return scheduler.happen(event, 5s);
    EXPECT_FALSE(scheduler.wait(event, kSomething, 2s));
    EXPECT_EQ(scheduler.now(), 2s);
    EXPECT_TRUE(scheduler.wait(event, kSomething, 4s)) << "by then it is in time";
  });
}

TEST(Scheduler, NobodysTimeoutsReachBeyondTheLimit) {
  auto& never = *new Event;
  auto& scheduler = *new Scheduler(rank_threads(), 2, Chooser({}, 2), kLimit);
  auto& polls = *new std::vector<int>(2);
  const auto ends = scheduler.run([&](int rank) {
    for (;;) {
      scheduler.wait(never, kSomething, 100ms);
      ++polls[static_cast<size_t>(rank)];
    }
  });
  EXPECT_EQ(polls, (std::vector<int>{100, 100}));
  for (const auto& standing : ends) EXPECT_EQ(standing.state, State::waiting);
}

TEST(Scheduler, ARankThatPollsLetsAllOthersRun) {
  for (const auto policy :
       {SchedulePolicy::listed, SchedulePolicy::uniform, SchedulePolicy::priority}) {
    bool is_there = false;
    Scheduler scheduler(rank_threads(), 3, Chooser({.policy = policy}, 3), kLimit);
    const auto ends = scheduler.run([&](int rank) {
      if (rank == 2) {
        for (int i = 0; i < 5; ++i) scheduler.yield();
        is_there = true;
      }
      while (!is_there) scheduler.stand_back(1ms, kSomething);
    });
    for (const auto& standing : ends) EXPECT_EQ(standing.state, State::ended) << word_of(policy);
  }
}

TEST(Scheduler, ARankThatPollsForeverRunsOutOfTime) {
  auto& scheduler = *new Scheduler(rank_threads(), 2, Chooser({}, 2), kLimit);
  const auto ends = scheduler.run([&](int rank) {
    if (rank == 1) return;
    for (;;) scheduler.stand_back(1ms, kSomething);
  });
  EXPECT_EQ(ends[0].state, State::waiting);
  EXPECT_EQ(ends[0].waits_for, "something");
}

TEST(Scheduler, AParkedRankNeverRunsAgainAndTheOthersDo) {
  auto& scheduler = *new Scheduler(rank_threads(), 3, Chooser({}, 3), kLimit);
  auto& ended = *new int(0);
  const auto ends = scheduler.run([&](int rank) {
    scheduler.yield();
    if (rank == 1) scheduler.park();
    ++ended;
  });
  EXPECT_EQ(ended, 2);
  EXPECT_EQ(ends[1].state, State::parked);
}

TEST(Scheduler, EveryTurnIsBegunAndEndedByTheRankThatHasIt) {
  std::vector<std::string> seen;
  Event event;
  const auto note = [&](const char* what) {
    return [&seen, what](int rank) { seen.push_back(what + std::to_string(rank)); };
  };
  Scheduler scheduler(rank_threads(), 2, Chooser({}, 2), kLimit,
                      {.begin = note("begin "), .end = note("end ")});
  scheduler.run([&](int rank) {
    rank == 0 ? (void)scheduler.wait(event, kSomething) : scheduler.happen(event, 0s);
  });
  EXPECT_EQ(seen,
            (std::vector<std::string>{"begin 0", "end 0", "begin 1", "end 1", "begin 0", "end 0"}));
}

}  // namespace
}  // namespace lockstep::sim
