#include "harness/worlds/sim/rank_threads.h"

#include <gtest/gtest.h>

#include <semaphore>
#include <thread>

namespace lockstep::sim {
namespace {

std::thread::id thread_of(RankThreads& rank_threads, int rank) {
  std::thread::id id;
  rank_threads.start(rank, [&] { id = std::this_thread::get_id(); });
  rank_threads.wait_for(rank);
  return id;
}

TEST(RankThreads, ARankHasTheSameThreadInEveryTask) {
  RankThreads rank_threads;
  const auto first = thread_of(rank_threads, 0);
  EXPECT_NE(thread_of(rank_threads, 2), first);
  EXPECT_EQ(thread_of(rank_threads, 0), first);
  EXPECT_EQ(rank_threads.size(), 2) << "made where they are wanted";
}

TEST(RankThreads, TasksOfDifferentRanksGoOnAtOnce) {
  RankThreads rank_threads;
  std::binary_semaphore asked{0}, answered{0};
  rank_threads.start(0, [&] {
    asked.release();
    answered.acquire();
  });
  rank_threads.start(1, [&] {
    asked.acquire();
    answered.release();
  });
  rank_threads.wait_for(0);
  rank_threads.wait_for(1);
}

TEST(RankThreads, AThreadThatIsAbandonedIsReplaced) {
  auto& never = *new std::binary_semaphore(0);  // outlives the thread that waits for it
  RankThreads rank_threads;
  const auto first = thread_of(rank_threads, 0);
  rank_threads.start(0, [&] { never.acquire(); });
  rank_threads.abandon(0);
  EXPECT_EQ(rank_threads.size(), 0);
  EXPECT_NE(thread_of(rank_threads, 0), first);
}

TEST(RankThreads, ThreadsBeyondThoseKeptAreEnded) {
  RankThreads rank_threads;
  for (int rank = 0; rank < 5; ++rank) thread_of(rank_threads, rank);
  const auto first = thread_of(rank_threads, 0);
  rank_threads.keep(2);
  EXPECT_EQ(rank_threads.size(), 2);
  EXPECT_EQ(thread_of(rank_threads, 0), first);
  thread_of(rank_threads, 4);
  EXPECT_EQ(rank_threads.size(), 3);
}

}  // namespace
}  // namespace lockstep::sim
