#include "harness/process/child_group.h"

#include "harness/process/shared_memory.h"
#include "tests/process/support.h"

#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <sys/prctl.h>
#include <sys/wait.h>

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using testing_support::children_of;
using testing_support::eventually;
using testing_support::is_gone;

using ChildGroupTest = testing_support::LeavesNothing;
using Kind = ChildEnd::Kind;

GroupWatch until(std::chrono::milliseconds limit) {
  return {.deadline = std::chrono::steady_clock::now() + limit};
}

[[noreturn]] void sleep_for_ever() {
  for (;;) pause();
}

// One word a process, shared.
struct Board {
  SharedMemory memory{4096};
  std::atomic<int>& operator[](size_t i) const {
    return reinterpret_cast<std::atomic<int>*>(memory.bytes().data())[i];
  }
};

TEST_F(ChildGroupTest, ReportsHowEachChildEnded) {
  ChildGroup group({}, 3, [](int index) {
    if (index == 1) raise(SIGTERM);
    return index;
  });
  const auto report = group.wait(until(20s));
  EXPECT_EQ(report.ends[0], (ChildEnd{Kind::exited, 0}));
  EXPECT_EQ(report.ends[1], (ChildEnd{Kind::signalled, SIGTERM}));
  EXPECT_EQ(report.ends[2], (ChildEnd{Kind::exited, 2}));
  EXPECT_FALSE(report.stopped);
}

TEST_F(ChildGroupTest, AnExceptionIsAnAbort) {
  ChildGroup group({}, 1, [](int) -> int { throw std::runtime_error("out of a child"); });
  EXPECT_EQ(group.wait(until(20s)).ends[0], (ChildEnd{Kind::signalled, SIGABRT}));
}

TEST_F(ChildGroupTest, AChildThatIsStillThereAtTheDeadlineIsStuck) {
  ChildGroup group({}, 3, [](int index) {
    if (index == 1) return 0;
    sleep_for_ever();
  });
  const auto report = group.wait(until(50ms));
  EXPECT_EQ(report.ends[0].kind, Kind::stuck);
  EXPECT_EQ(report.ends[1].kind, Kind::exited);
  EXPECT_EQ(report.ends[2].kind, Kind::stuck);
}

TEST_F(ChildGroupTest, AtTheDeadlineAChildThatHandlesSigtermHasALastWord) {
  static Board board;
  ChildGroup group({}, 2, [](int index) -> int {
    if (index == 0)
      std::signal(SIGTERM, [](int) {
        board[0] = 1;
        _exit(7);
      });
    else
      std::signal(SIGTERM, SIG_IGN);
    sleep_for_ever();
  });
  const auto report = group.wait(until(300ms));
  EXPECT_EQ(report.ends[0], (ChildEnd{Kind::stuck, SIGTERM}));
  EXPECT_EQ(report.ends[1], (ChildEnd{Kind::stuck, SIGKILL}));
  EXPECT_EQ(board[0], 1);
}

// On a machine that is busy SIGKILL finds children still there that SIGTERM has ended.
TEST_F(ChildGroupTest, AChildThatIsSlowToEndAfterTheSignalIsStuckAllTheSame) {
  for (int i = 0; i < 20; ++i) {
    ChildGroup group({}, 3, [](int) -> int { sleep_for_ever(); });
    auto watch = until(20ms);
    watch.last_words = 0ms;
    for (const auto& end : group.wait(watch).ends) EXPECT_EQ(end.kind, Kind::stuck) << end.code;
  }
}

TEST_F(ChildGroupTest, AStoppedChildIsKilledAtTheDeadline) {
  ChildGroup group({}, 1, [](int) { return raise(SIGSTOP); });
  EXPECT_EQ(group.wait(until(50ms)).ends[0].kind, Kind::stuck);
}

TEST_F(ChildGroupTest, ABadEndGivesTheOthersAGraceAndIsReportedOnce) {
  ChildGroup group({}, 3, [](int index) {
    if (index > 0) return index;
    sleep_for_ever();
  });
  int told = 0;
  auto watch = until(60s);
  watch.grace = 20ms;
  watch.on_bad_end = [&] { ++told; };
  const auto report = group.wait(watch);
  EXPECT_EQ(report.ends[0].kind, Kind::cut_off);
  EXPECT_EQ(report.ends[1], (ChildEnd{Kind::exited, 1}));
  EXPECT_EQ(told, 1);
}

TEST_F(ChildGroupTest, AChildThatEndsDuringTheGraceKeepsItsOwnEnd) {
  const Board board;
  ChildGroup group({}, 2, [&](int index) {
    if (index == 1) return 7;
    while (board[0] == 0) sched_yield();
    return 0;
  });
  auto watch = until(60s);
  watch.grace = 60s;
  watch.on_bad_end = [&] { board[0] = 1; };
  const auto report = group.wait(watch);
  EXPECT_EQ(report.ends[0], (ChildEnd{Kind::exited, 0}));
  EXPECT_EQ(report.ends[1], (ChildEnd{Kind::exited, 7}));
}

TEST_F(ChildGroupTest, AReadableStopDescriptorEndsAll) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const Descriptor reading(ends[0]);
  Descriptor(ends[1]).close();  // a hang-up counts as much as a byte
  ChildGroup group({}, 2, [](int) -> int { sleep_for_ever(); });
  auto watch = until(60s);
  watch.stop_descriptor = reading.number();
  const auto report = group.wait(watch);
  EXPECT_TRUE(report.stopped);
  EXPECT_EQ(report.ends[0].kind, Kind::cut_off);
  EXPECT_EQ(report.ends[1].kind, Kind::cut_off);
}

TEST_F(ChildGroupTest, ChildrenShareAProcessGroupThatIsNotTheParents) {
  const Board board;
  ChildGroup group({}, 2, [&](int index) {
    board[static_cast<size_t>(index)] = getpgrp();
    return 0;
  });
  group.wait(until(20s));
  EXPECT_EQ(board[0].load(), board[1].load());
  EXPECT_NE(board[0].load(), getpgrp());
}

TEST_F(ChildGroupTest, AGroupNobodyWaitedForIsKilled) {
  {
    const ChildGroup group({}, 2, [](int) -> int { sleep_for_ever(); });
  }
  EXPECT_TRUE(children_of(getpid()).empty());
}

TEST_F(ChildGroupTest, AKilledParentTakesItsChildrenAlong) {
  const Board board;
  const pid_t parent = fork();
  if (parent == 0) {
    ChildGroup group({}, 2, [&](int index) -> int {
      board[static_cast<size_t>(index)] = getpid();
      sleep_for_ever();
    });
    group.wait(until(600s));
    _exit(0);
  }
  ASSERT_TRUE(eventually([&] { return board[0] != 0 && board[1] != 0; }));
  kill(parent, SIGKILL);
  waitpid(parent, nullptr, 0);
  EXPECT_TRUE(eventually([&] { return is_gone(board[0]); }));
  EXPECT_TRUE(eventually([&] { return is_gone(board[1]); }));
}

// One stays in the group, one leaves it for a session of its own.
TEST_F(ChildGroupTest, GrandchildrenAreFoundAndKilled) {
  const Board board;
  adopt_orphans();
  ChildGroup group({}, 1, [&](int) {
    for (const size_t each : {0u, 1u})
      if (fork() == 0) {
        if (each == 1) setsid();
        board[each] = getpid();
        sleep_for_ever();
      }
    while (board[0] == 0 || board[1] == 0) sched_yield();
    return 0;
  });
  EXPECT_EQ(group.wait(until(20s)).ends[0], (ChildEnd{Kind::exited, 0}));
  EXPECT_EQ(end_descendants(), 2);
  EXPECT_TRUE(is_gone(board[0]));
  EXPECT_TRUE(is_gone(board[1]));
  EXPECT_EQ(end_descendants(), 0);
  prctl(PR_SET_CHILD_SUBREAPER, 0);
}

TEST_F(ChildGroupTest, AHundredGroupsLeaveNothing) {
  for (int i = 0; i < 100; ++i) {
    ChildGroup group({}, 3, [](int) { return 0; });
    group.wait(until(20s));
  }
}

}  // namespace
}  // namespace lockstep
