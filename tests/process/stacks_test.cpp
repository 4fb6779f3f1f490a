#include "harness/process/stacks.h"

#include "harness/process/child_group.h"
#include "harness/process/shared_memory.h"

#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <thread>
#include <unistd.h>

namespace lockstep {
namespace {

using namespace std::chrono_literals;

// Kept apart, so that it has a frame to be found by.
[[gnu::noinline]] void spins_for_ever(std::atomic<int>& turns) {
  for (;;) ++turns;
}

// What is seen of the threads of a child that does `act`, at its deadline.
std::vector<ThreadStack> seen_of(const std::function<void()>& act) {
  const SharedMemory memory(sizeof(StackBoard));
  auto& board = *reinterpret_cast<StackBoard*>(memory.bytes().data());
  answer_on(board);
  std::vector<ThreadStack> seen;
  ChildGroup group(1, [&](int) {
    act();
    return 0;
  });
  group.wait(
      {.deadline = std::chrono::steady_clock::now() + 200ms, .on_deadline = [&](const auto& late) {
         EXPECT_EQ(late.size(), 1u);
         seen = stacks_of(late.at(0).second, board, 10s);
       }});
  return seen;
}

std::vector<std::string> lines_of(const ThreadStack& stack) {
  return lines_of(stack, lines_at({stack.frames.begin(), stack.frames.end()}));
}

bool names(const ThreadStack& stack, const std::string& function) {
  for (const auto& line : lines_of(stack))
    if (line.find(function) != std::string::npos) return true;
  return false;
}

TEST(Stacks, ALoopIsFoundByTheNameOfItsFunction) {
  const auto seen = seen_of([] {
    std::atomic<int> turns = 0;
    spins_for_ever(turns);
  });
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_TRUE(names(seen[0], "spins_for_ever")) << ::testing::PrintToString(lines_of(seen[0]));
}

TEST(Stacks, EveryThreadAnswers) {
  const auto seen = seen_of([] {
    std::thread([] {
      std::atomic<int> turns = 0;
      spins_for_ever(turns);
    }).detach();
    for (;;) pause();
  });
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_FALSE(names(seen[0], "spins_for_ever"));
  EXPECT_TRUE(names(seen[0], "pause")) << ::testing::PrintToString(lines_of(seen[0]));
  EXPECT_TRUE(names(seen[1], "spins_for_ever"));
}

TEST(Stacks, OfAStoppedProcessTheKernelTells) {
  const auto seen = seen_of([] { raise(SIGSTOP); });
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_TRUE(seen[0].frames.empty());
  EXPECT_TRUE(seen[0].instead.starts_with("stopped")) << seen[0].instead;
}

TEST(Stacks, AProcessThatIsGoneHasNone) {
  const SharedMemory memory(sizeof(StackBoard));
  auto& board = *reinterpret_cast<StackBoard*>(memory.bytes().data());
  EXPECT_TRUE(stacks_of(1 << 30, board, 1ms).empty());
}

}  // namespace
}  // namespace lockstep
