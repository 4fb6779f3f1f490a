#include "harness/process/zygote.h"

#include "harness/cases/tier.h"
#include "harness/process/child_group.h"
#include "harness/process/shared_memory.h"
#include "tests/process/support.h"

#include <gtest/gtest.h>

#include <csignal>
#include <sys/wait.h>

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using testing_support::children_of;
using testing_support::eventually;
using testing_support::is_gone;

using ZygoteTest = testing_support::LeavesNothing;

std::string text_of_tier_error(const std::function<void()>& act) {
  try {
    act();
  } catch (const TierError& error) {
    return error.what();
  }
  return "no TierError";
}

ZygoteServer echo() {
  return {.prepare = [] {}, .serve = [](const std::string& text, int) { return text + "!"; }};
}

struct Pids {
  SharedMemory memory{4096};
  std::atomic<int>& operator[](size_t i) const {
    return reinterpret_cast<std::atomic<int>*>(memory.bytes().data())[i];
  }
};

// Serves a request by a world of two that never ends.
ZygoteServer hanging_world(const Pids& pids) {
  return {.prepare = [&pids] { pids[0] = getpid(); },
          .serve = [&pids](const std::string&, int stop) -> std::string {
            ChildGroup group({}, 2, [&pids](int index) -> int {
              pids[static_cast<size_t>(index) + 1] = getpid();
              for (;;) pause();
            });
            const auto report = group.wait(
                {.deadline = std::chrono::steady_clock::now() + 600s, .stop_descriptor = stop});
            return report.stopped ? "stopped" : "ended";
          }};
}

bool world_is_up(const Pids& pids) {
  return pids[1] != 0 && pids[2] != 0;
}

bool all_gone(const Pids& pids) {
  return is_gone(pids[0]) && is_gone(pids[1]) && is_gone(pids[2]);
}

TEST_F(ZygoteTest, AnswersRequestsInAProcessOfItsOwn) {
  Zygote zygote({}, {.prepare = [] {},
                     .serve = [](const std::string&, int) { return std::to_string(getpid()); }});
  EXPECT_EQ(zygote.request("", 20s), std::to_string(zygote.pid()));
  EXPECT_NE(zygote.pid(), getpid());
}

TEST_F(ZygoteTest, MessagesMayBeLong) {
  Zygote zygote({}, echo());
  const std::string text(5'000'000, 'x');
  EXPECT_EQ(zygote.request(text, 20s), text + "!");
}

TEST_F(ZygoteTest, AThrowingServerIsATierErrorAndServesOn) {
  Zygote zygote({}, {.prepare = [] {},
                     .serve =
                         [](const std::string& text, int) {
                           if (text == "bad") throw std::runtime_error("cannot serve that");
                           return text;
                         }});
  EXPECT_EQ(text_of_tier_error([&] { zygote.request("bad", 20s); }), "cannot serve that");
  EXPECT_EQ(zygote.request("good", 20s), "good");
}

TEST_F(ZygoteTest, AFailedPreparationFailsEveryRequest) {
  Zygote zygote({}, {.prepare = [] { throw std::runtime_error("not ready"); },
                     .serve = [](const std::string& text, int) { return text; }});
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(text_of_tier_error([&] { zygote.request("x", 20s); }), "not ready");
}

TEST_F(ZygoteTest, ItsDeathIsNoticedAndNamed) {
  Zygote zygote({}, {.prepare = [] {},
                     .serve = [](const std::string&, int) -> std::string {
                       raise(SIGKILL);
                       return "";
                     }});
  const std::string expected =
      "the server process (pid " + std::to_string(zygote.pid()) + ") was ended by SIGKILL";
  EXPECT_EQ(text_of_tier_error([&] { zygote.request("x", 20s); }), expected);
  EXPECT_EQ(text_of_tier_error([&] { zygote.request("x", 20s); }), expected);
}

TEST_F(ZygoteTest, AnAnswerThatDoesNotComeEndsTheServer) {
  Zygote zygote({}, {.prepare = [] {},
                     .serve = [](const std::string&, int) -> std::string {
                       for (;;) pause();
                     }});
  EXPECT_EQ(text_of_tier_error([&] { zygote.request("x", 50ms); }),
            "the server process (pid " + std::to_string(zygote.pid()) +
                ") did not answer in time, and was killed");
}

TEST_F(ZygoteTest, StopEndsTheRequestBeingServed) {
  const Pids pids;
  Zygote zygote({}, hanging_world(pids));
  std::thread stopper([&] {
    eventually([&] { return world_is_up(pids); });
    zygote.stop();
  });
  EXPECT_EQ(zygote.request("", 60s), "stopped");
  stopper.join();
  EXPECT_TRUE(is_gone(pids[1]));
  EXPECT_TRUE(is_gone(pids[2]));
  EXPECT_THROW(zygote.request("", 60s), Interrupted) << "a stop is for good";
}

TEST_F(ZygoteTest, HasAProcessGroupOfItsOwn) {
  Zygote zygote({}, {.prepare = [] {},
                     .serve = [](const std::string&, int) { return std::to_string(getpgrp()); }});
  EXPECT_EQ(zygote.request("", 20s), std::to_string(zygote.pid()));
}

TEST_F(ZygoteTest, IsRefusedToAProgramWithASecondThread) {
  std::mutex held;
  held.lock();
  std::thread second([&] { const std::lock_guard lock(held); });
  EXPECT_EQ(text_of_tier_error([] { Zygote zygote({}, echo()); }),
            "a process must be forked while the program has one thread; it has 2");
  held.unlock();
  second.join();
}

TEST_F(ZygoteTest, EndsWithItsOwner) {
  pid_t pid = 0;
  {
    const Zygote zygote({}, echo());
    pid = zygote.pid();
    EXPECT_FALSE(is_gone(pid));
  }
  EXPECT_TRUE(is_gone(pid));
}

TEST_F(ZygoteTest, ALaterServerDoesNotKeepAnEarlierOneAlive) {
  auto first = std::make_unique<Zygote>(SingleThreaded(), echo());
  Zygote second({}, echo());
  const pid_t pid = first->pid();
  first.reset();
  EXPECT_TRUE(is_gone(pid));
  EXPECT_EQ(second.request("x", 20s), "x!");
}

TEST_F(ZygoteTest, AKilledRunnerTakesServerAndWorldAlong) {
  const Pids pids;
  const pid_t runner = fork();
  if (runner == 0) {
    Zygote zygote({}, hanging_world(pids));
    zygote.request("", 600s);
    _exit(0);
  }
  ASSERT_TRUE(eventually([&] { return world_is_up(pids); }));
  kill(runner, SIGKILL);
  waitpid(runner, nullptr, 0);
  EXPECT_TRUE(eventually([&] { return all_gone(pids); }));
}

TEST_F(ZygoteTest, AKilledServerTakesItsWorldAlong) {
  const Pids pids;
  Zygote zygote({}, hanging_world(pids));
  std::thread killer([&] {
    eventually([&] { return world_is_up(pids); });
    kill(zygote.pid(), SIGKILL);
  });
  EXPECT_EQ(text_of_tier_error([&] { zygote.request("", 60s); }),
            "the server process (pid " + std::to_string(zygote.pid()) + ") was ended by SIGKILL");
  killer.join();
  EXPECT_TRUE(eventually([&] { return all_gone(pids); }));
}

// The server is in a loop that never looks at its socket: the alarm has to end it.
TEST_F(ZygoteTest, ADeafServerDiesWithTheRunnerToo) {
  const Pids pids;
  const pid_t runner = fork();
  if (runner == 0) {
    Zygote zygote({}, {.prepare = [&pids] { pids[0] = getpid(); },
                       .serve = [&pids](const std::string&, int) -> std::string {
                         pids[1] = 1;
                         for (;;) sched_yield();
                       }});
    zygote.request("", 600s);
    _exit(0);
  }
  ASSERT_TRUE(eventually([&] { return pids[1] != 0; }));
  kill(runner, SIGKILL);
  waitpid(runner, nullptr, 0);
  EXPECT_TRUE(eventually([&] { return is_gone(pids[0]); }));
}

}  // namespace
}  // namespace lockstep
