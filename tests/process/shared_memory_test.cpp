#include "harness/process/shared_memory.h"

#include "harness/cases/tier.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sys/wait.h>
#include <unistd.h>

namespace lockstep {
namespace {

TEST(SharedMemory, WhatAChildWritesIsThereAfterItsDeath) {
  const SharedMemory memory(1 << 20);
  const pid_t child = fork();
  if (child == 0) {
    memory.bytes()[1000] = std::byte{42};
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  EXPECT_EQ(memory.bytes()[1000], std::byte{42});
}

TEST(SharedMemory, MoreThanTheMachineHasCanBeReserved) {
  const SharedMemory memory(size_t{1} << 40);
  memory.bytes()[memory.size() - 1] = std::byte{1};
  EXPECT_EQ(memory.bytes()[memory.size() - 1], std::byte{1});
}

TEST(SharedMemory, WhatIsReleasedReadsAsZeroAndTheRestStays) {
  const SharedMemory memory(size_t{8} << 20);
  std::fill(memory.bytes().begin(), memory.bytes().end(), std::byte{5});
  memory.release(memory.bytes().subspan(100, size_t{4} << 20));
  EXPECT_EQ(memory.bytes()[0], std::byte{5}) << "outside";
  EXPECT_EQ(memory.bytes()[200], std::byte{5}) << "on a page that is not wholly inside";
  EXPECT_EQ(memory.bytes()[size_t{2} << 20], std::byte{0});
  EXPECT_EQ(memory.bytes()[size_t{6} << 20], std::byte{5});
}

TEST(SharedMemory, LittleIsNotWorthReleasing) {
  const SharedMemory memory(size_t{8} << 20);
  std::fill(memory.bytes().begin(), memory.bytes().end(), std::byte{5});
  memory.release(memory.bytes().first(size_t{1} << 20));
  EXPECT_EQ(memory.bytes()[0], std::byte{5});
}

TEST(SharedMemory, ARegionThatCannotBeHadIsATierError) {
  EXPECT_THROW(SharedMemory(size_t{1} << 60), TierError);
}

}  // namespace
}  // namespace lockstep
