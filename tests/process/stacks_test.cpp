#include "harness/process/stacks.h"

#include "harness/process/child_group.h"
#include "harness/process/shared_memory.h"

#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <pthread.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace lockstep {
namespace {

using namespace std::chrono_literals;

// Kept apart, so that it has a frame to be found by.
[[gnu::noinline]] void spins_for_ever(std::atomic<int>& turns) {
  for (;;) ++turns;
}

// The threads of a child that runs `act`, as seen at its deadline.
std::vector<ThreadStack> seen_of(const std::function<void()>& act) {
  const SharedMemory memory(sizeof(StackBoard));
  auto& board = *reinterpret_cast<StackBoard*>(memory.bytes().data());
  answer_on(board);
  std::vector<ThreadStack> seen;
  ChildGroup group({}, 1, [&](int) {
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

Stack frames_of(const ThreadStack& stack) {
  return frames_of(stack, frames_at({stack.frames.begin(), stack.frames.end()}));
}

std::vector<std::string> lines_of(const ThreadStack& stack) {
  std::vector<std::string> lines;
  for (const auto& frame : frames_of(stack)) lines.push_back(frame.text());
  return lines;
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

struct NeverMade {
  NeverMade() {
    for (;;) pause();
  }
};

[[gnu::noinline]] void makes(const std::function<void()>& make) {
  make();
}

// They have lines, and inlined ones have no namespace.
TEST(Stacks, AStoryLeavesOutTheHeadersOfTheStandardLibrary) {
  const auto seen = seen_of([] { makes([] { std::make_shared<NeverMade>(); }); });
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_TRUE(names(seen[0], "make_shared")) << ::testing::PrintToString(lines_of(seen[0]));
  bool is_found = false;
  for (const auto& line : story_of(frames_of(seen[0]))) {
    is_found |= line.find("lockstep::makes at ") != std::string::npos;
    for (const char* header : {"shared_ptr", "construct", "alloc_traits", "invoke"})
      EXPECT_EQ(line.find(header), std::string::npos) << line;
  }
  EXPECT_TRUE(is_found) << ::testing::PrintToString(lines_of(seen[0]));
}

TEST(Stacks, OfAStoppedProcessComeFromTheKernel) {
  const auto seen = seen_of([] { raise(SIGSTOP); });
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_TRUE(seen[0].frames.empty());
  EXPECT_TRUE(seen[0].is_stopped);
  EXPECT_TRUE(seen[0].instead.starts_with("stopped")) << seen[0].instead;
}

struct Crashed {
  ChildEnd end;
  std::optional<ThreadStack> stack;
};

// How a child ends that does `act`, and what it wrote as it crashed.
Crashed crashed_by(const std::function<void()>& act) {
  const SharedMemory memory(sizeof(StackBoard::Slot));
  auto& slot = *reinterpret_cast<StackBoard::Slot*>(memory.bytes().data());
  ChildGroup group({}, 1, [&](int) {
    // A sanitizer has a handler of its own, which record_crash_in() leaves in place.
    for (const int signal : {SIGSEGV, SIGBUS, SIGFPE}) std::signal(signal, SIG_DFL);
    record_crash_in(slot);
    act();
    return 0;
  });
  const auto report = group.wait({.deadline = std::chrono::steady_clock::now() + 60s});
  return {report.ends.at(0), crash_in(slot)};
}

[[gnu::noinline]] void writes_to_nobody(volatile int* nobody) {
  *nobody = 1;
}

// The call ends the function, so that an optimiser may jump instead, and then it has no frame.
[[gnu::noinline]] void raises_last() {
  std::raise(SIGSEGV);
}

[[gnu::always_inline]] inline void aborts_inlined() {
  std::abort();
}

[[gnu::noinline]] void aborts_last() {
  aborts_inlined();
}

// An end that no stack is long enough for.
[[gnu::noinline]] int recurses(int depth) {
  volatile char room[4096];
  room[0] = static_cast<char>(depth);
  return depth == 0 ? 0 : recurses(depth - 1) + room[0];
}

TEST(Crashes, TheFunctionThatCrashedIsFoundByItsName) {
  const auto crash = crashed_by([] { writes_to_nobody(nullptr); });
  EXPECT_EQ(crash.end, (ChildEnd{ChildEnd::Kind::signalled, SIGSEGV}));
  ASSERT_TRUE(crash.stack);
  EXPECT_TRUE(lines_of(*crash.stack).at(0).starts_with("lockstep::"));
  EXPECT_NE(lines_of(*crash.stack).at(0).find("writes_to_nobody"), std::string::npos)
      << ::testing::PrintToString(lines_of(*crash.stack));
}

TEST(Crashes, AStoryBeginsWithTheInnermostFunctionOfTheProgram) {
  const auto raised = crashed_by([] { raises_last(); });
  ASSERT_TRUE(raised.stack);
  EXPECT_TRUE(story_of(frames_of(*raised.stack)).at(0).starts_with("lockstep::raises_last at "))
      << ::testing::PrintToString(lines_of(*raised.stack));
  const auto aborted = crashed_by([] { aborts_last(); });
  ASSERT_TRUE(aborted.stack);
  const auto story = story_of(frames_of(*aborted.stack));
  ASSERT_GE(story.size(), 2u);
  EXPECT_TRUE(story[0].starts_with("aborts_inlined at ")) << ::testing::PrintToString(story);
  EXPECT_TRUE(story[1].starts_with("lockstep::aborts_last at ")) << ::testing::PrintToString(story);
}

TEST(Crashes, AnAbortIsStillAnAbort) {
  const auto crash = crashed_by([] { std::abort(); });
  EXPECT_EQ(crash.end, (ChildEnd{ChildEnd::Kind::signalled, SIGABRT}));
  ASSERT_TRUE(crash.stack);
  EXPECT_TRUE(names(*crash.stack, "abort"));
}

TEST(Crashes, AStackThatOverflowedIsFound) {
  const auto crash = crashed_by([] { recurses(1 << 30); });
  EXPECT_EQ(crash.end, (ChildEnd{ChildEnd::Kind::signalled, SIGSEGV}));
  ASSERT_TRUE(crash.stack);
  EXPECT_TRUE(names(*crash.stack, "recurses"));
}

TEST(Crashes, AnotherThreadIsFoundWithItsName) {
  const auto crash = crashed_by([] {
    std::thread([] {
      pthread_setname_np(pthread_self(), "another");
      const SignalStack stack;
      recurses(1 << 30);
    }).join();
  });
  ASSERT_TRUE(crash.stack);
  EXPECT_EQ(crash.stack->name, "another");
  EXPECT_TRUE(names(*crash.stack, "recurses"));
}

TEST(Crashes, OfThreadsThatCrashAtOnceOneIsFoundWhole) {
  const auto crash = crashed_by([] {
    std::atomic<int> ready = 0;
    for (int i = 0; i < 8; ++i)
      std::thread([&] {
        for (++ready; ready < 8;) std::this_thread::yield();
        writes_to_nobody(nullptr);
      }).detach();
    for (;;) pause();
  });
  ASSERT_TRUE(crash.stack);
  EXPECT_TRUE(names(*crash.stack, "writes_to_nobody"));
}

TEST(Crashes, OfAProcessThatItForkedAreNotItsOwn) {
  const auto crash = crashed_by([] {
    const pid_t child = fork();
    if (child == 0) writes_to_nobody(nullptr);
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV) ::kill(getpid(), SIGKILL);
  });
  EXPECT_EQ(crash.end, (ChildEnd{ChildEnd::Kind::signalled, SIGKILL}));
  EXPECT_FALSE(crash.stack);
}

TEST(Stacks, AProcessThatIsGoneHasNone) {
  const SharedMemory memory(sizeof(StackBoard));
  auto& board = *reinterpret_cast<StackBoard*>(memory.bytes().data());
  EXPECT_TRUE(stacks_of(1 << 30, board, 1ms).empty());
}

}  // namespace
}  // namespace lockstep
