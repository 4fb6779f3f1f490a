#include "harness/world/sim/crew.h"

#include <gtest/gtest.h>

#include <semaphore>
#include <thread>

namespace lockstep::sim {
namespace {

std::thread::id thread_of(Crew& crew, int rank) {
  std::thread::id id;
  crew.start(rank, [&] { id = std::this_thread::get_id(); });
  crew.wait_for(rank);
  return id;
}

TEST(Crew, ARankHasTheSameThreadInEveryTask) {
  Crew crew;
  const auto first = thread_of(crew, 0);
  EXPECT_NE(thread_of(crew, 2), first);
  EXPECT_EQ(thread_of(crew, 0), first);
  EXPECT_EQ(crew.size(), 2) << "made where they are wanted";
}

TEST(Crew, TasksOfDifferentRanksGoOnAtOnce) {
  Crew crew;
  std::binary_semaphore asked{0}, answered{0};
  crew.start(0, [&] {
    asked.release();
    answered.acquire();
  });
  crew.start(1, [&] {
    asked.acquire();
    answered.release();
  });
  crew.wait_for(0);
  crew.wait_for(1);
}

TEST(Crew, AThreadThatIsAbandonedIsReplaced) {
  auto& never = *new std::binary_semaphore(0);  // outlives the thread that waits for it
  Crew crew;
  const auto first = thread_of(crew, 0);
  crew.start(0, [&] { never.acquire(); });
  crew.abandon(0);
  EXPECT_EQ(crew.size(), 0);
  EXPECT_NE(thread_of(crew, 0), first);
}

TEST(Crew, ThreadsBeyondThoseKeptAreEnded) {
  Crew crew;
  for (int rank = 0; rank < 5; ++rank) thread_of(crew, rank);
  const auto first = thread_of(crew, 0);
  crew.keep(2);
  EXPECT_EQ(crew.size(), 2);
  EXPECT_EQ(thread_of(crew, 0), first);
  thread_of(crew, 4);
  EXPECT_EQ(crew.size(), 3);
}

}  // namespace
}  // namespace lockstep::sim
