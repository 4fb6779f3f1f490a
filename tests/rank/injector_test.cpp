#include "harness/rank/injector.h"

#include "harness/process/child_group.h"
#include "harness/process/shared_memory.h"
#include "harness/rank/journal.h"

#include <gtest/gtest.h>

#include <csignal>

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using Kind = ChildEnd::Kind;

// How a process ends in which `injection` strikes at collective 0, and what its journal says.
struct Struck {
  ChildEnd end;
  std::vector<Event> events;
};

Struck struck_by(InjectionKind kind, int amount) {
  const SharedMemory memory(1 << 16);
  ChildGroup group({}, 1, [&](int) {
    JournalWriter journal(memory.bytes());
    Injector({{.kind = kind, .rank = 0, .collective = 0, .amount = amount}}, 0, journal)
        .at_collective(0);
    return 0;
  });
  const auto report = group.wait(
      {.deadline = std::chrono::steady_clock::now() + (kind == InjectionKind::stop ? 100ms : 20s)});
  const auto frames = JournalView(memory.bytes()).frames();
  return {report.ends[0], rank_history(frames, "here").events};
}

TEST(Injector, EachKindStrikesAfterItIsOnRecord) {
  const std::vector<std::pair<InjectionKind, ChildEnd>> expected{
      {InjectionKind::delay, {Kind::exited, 0}},
      {InjectionKind::kill, {Kind::signalled, SIGKILL}},
      {InjectionKind::stop, {Kind::stuck, SIGKILL}},
      {InjectionKind::exit, {Kind::exited, 5}},
      {InjectionKind::throw_, {Kind::signalled, SIGABRT}}};  // nobody catches it here
  for (const auto& [kind, end] : expected) {
    const auto struck = struck_by(kind, 5);
    EXPECT_EQ(struck.end, end) << word_of(kind);
    ASSERT_EQ(struck.events.size(), 1u) << word_of(kind);
    EXPECT_EQ(std::get<Injection>(struck.events[0].what).kind, kind);
  }
}

TEST(Injector, WhatConcernsACollectiveStrikesTheNextOne) {
  using Fate = CollectiveFault::Kind;
  const SharedMemory memory(1 << 16);
  JournalWriter journal(memory.bytes());
  Injector injector({{.kind = InjectionKind::corrupt, .at = {1, "forward"}, .amount = 9},
                     {.kind = InjectionKind::drop, .collective = 2}},
                    0, journal);
  EXPECT_EQ(injector.at_collective(0).kind, Fate::carried);
  injector.at_moment({1, "forward"});
  const auto next = injector.at_collective(1);
  EXPECT_EQ(next.kind, Fate::corrupted);
  EXPECT_EQ(next.bit, 9);
  EXPECT_EQ(injector.at_collective(2).kind, Fate::dropped);
  EXPECT_EQ(injector.at_collective(3).kind, Fate::carried);
}

TEST(Injector, ASlowRankStandsStillBeforeEveryCollectiveFromThereOn) {
  const SharedMemory memory(1 << 16);
  JournalWriter journal(memory.bytes());
  std::vector<std::chrono::milliseconds> delays;
  Injector injector({{.kind = InjectionKind::slow, .at = {1, "forward"}, .amount = 7}}, 0, journal,
                    {.delay = [&](std::chrono::milliseconds time) { delays.push_back(time); }});
  injector.at_collective(0);
  injector.at_moment({1, "forward"});
  injector.at_collective(1);
  injector.at_collective(2);
  EXPECT_EQ(delays, (std::vector<std::chrono::milliseconds>{7ms, 7ms}));
}

TEST(Injector, ResultsAreLateFromThereOnWhateverElseBefallsThem) {
  const SharedMemory memory(1 << 16);
  JournalWriter journal(memory.bytes());
  Injector injector({{.kind = InjectionKind::late, .rank = 0, .collective = 1, .amount = 7},
                     {.kind = InjectionKind::duplicate, .rank = 0, .collective = 2}},
                    0, journal);
  EXPECT_EQ(injector.at_collective(0).late_by, 0ms);
  EXPECT_EQ(injector.at_collective(1).late_by, 7ms);
  const auto next = injector.at_collective(2);
  EXPECT_EQ(next.late_by, 7ms);
  EXPECT_EQ(next.kind, CollectiveFault::Kind::duplicated);
  EXPECT_EQ(injector.at_collective(3).late_by, 7ms);
}

TEST(Injector, StrikesOnceAndOnlyWhereItWasPlanted) {
  const SharedMemory memory(1 << 16);
  JournalWriter journal(memory.bytes());
  Injector injector({{.kind = InjectionKind::throw_, .rank = 1, .collective = 2},
                     {.kind = InjectionKind::throw_, .rank = 0, .collective = 0},
                     {.kind = InjectionKind::throw_, .rank = 1, .at = {1, "forward"}}},
                    1, journal);
  injector.at_collective(0);
  injector.at_collective(1);
  EXPECT_THROW(injector.at_collective(2), InjectedError);
  injector.at_collective(2);
  injector.at_moment({0, "forward"});
  injector.at_moment({1, "backward"});
  EXPECT_THROW(injector.at_moment({1, "forward"}), InjectedError);
  injector.at_moment({1, "forward"});
}

}  // namespace
}  // namespace lockstep
