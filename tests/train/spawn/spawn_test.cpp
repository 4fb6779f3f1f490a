// spawn: processes that find each other, end each other, and leave nothing behind.
#include "train/spawn.h"

#include "ddp/base/waiting.h"
#include "ddp/init.h"
#include "train/collectives.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace lockstep {
namespace {

using std::chrono_literals::operator""s;
using std::chrono_literals::operator""ms;

// Memory that forked processes share.
template <class Value>
class Shared {
 public:
  Shared()
      : value_(static_cast<Value*>(::mmap(nullptr, sizeof(Value), PROT_READ | PROT_WRITE,
                                          MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {
    new (value_) Value{};
  }
  ~Shared() { ::munmap(value_, sizeof(Value)); }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;
  Value* operator->() const { return value_; }

 private:
  Value* const value_;
};

struct Pids {
  std::atomic<pid_t> of_rank[4];
  std::atomic<int> sum;
};

bool all_are_gone(const Pids& pids) {
  for (const auto& each : pids.of_rank)
    if (each > 0 && (::kill(each, 0) == 0 || errno != ESRCH)) return false;
  return true;
}

std::string sentence_of(int process_count, const std::function<void(int)>& function,
                        const SpawnOptions& options = {}) {
  try {
    spawn(process_count, function, options);
  } catch (const SpawnError& error) {
    return "SpawnError of " + std::to_string(error.rank()) + ": " + error.what();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "nothing was thrown";
}

// Blocks until the process is killed.
[[noreturn]] void stay() {
  for (;;) ::pause();
}

TEST(Spawn, RunsRanksThatFindEachOtherTwiceInARow) {
  const Shared<Pids> seen;
  for (int round = 1; round < 3; ++round) {
    spawn(3, [&](int rank) {
      const auto group = init_process_group({.backend = "gloo"});
      const at::Tensor sum = at::full({1}, rank + 1, at::kLong);
      all_reduce(group, sum);
      seen->sum += sum.item<int>() * (group->getRank() == rank ? 1 : 100);
    });
    EXPECT_EQ(seen->sum, round * 3 * 6);
  }
}

TEST(Spawn, ThrowsTheSentenceOfTheRankThatFailedFirstAndEndsTheOthers) {
  const Shared<Pids> pids;
  const auto run = [&](int rank) {
    pids->of_rank[rank] = ::getpid();
    const auto group = init_process_group({.backend = "gloo"});
    barrier(group);
    if (rank == 1) throw std::runtime_error("the disk is full");
    if (rank == 2) stay();
    barrier(group);
  };
  EXPECT_EQ(sentence_of(3, run), "SpawnError of 1: rank 1 of 3: the disk is full");
  EXPECT_TRUE(all_are_gone(*pids.operator->()));
}

// Ranks 0 and 2 end by the closed connection, perhaps before rank 1 has been waited for.
TEST(Spawn, NamesTheRankThatWasKilledAndNotItsPeers) {
  const Shared<Pids> pids;
  const auto run = [&](int rank) {
    pids->of_rank[rank] = ::getpid();
    const auto group = init_process_group({.backend = "gloo"});
    barrier(group);
    if (rank == 1) ::kill(::getpid(), SIGKILL);
    barrier(group);
  };
  EXPECT_EQ(sentence_of(3, run), "SpawnError of 1: rank 1 of 3 was ended by signal 9 (Killed)");
  EXPECT_TRUE(all_are_gone(*pids.operator->()));
}

TEST(Spawn, NamesTheCauseThoughAPeerReportedItsConsequenceBefore) {
  const Shared<Pids> pids;
  const auto run = [&](int rank) {
    pids->of_rank[rank] = ::getpid();
    if (rank == 0) throw CommunicationError(0, "barrier", 3, 5ms, "rank 1 left");
    // Rank 0 has not been waited for, or is a zombie whose end has been seen.
    while (::kill(pids->of_rank[0], 0) == 0 || pids->of_rank[0] == 0) std::this_thread::yield();
    throw std::runtime_error("the cause");
  };
  EXPECT_EQ(sentence_of(2, run), "SpawnError of 1: rank 1 of 2: the cause");
}

TEST(Spawn, ReportsAnExitThatIsNoReturn) {
  EXPECT_EQ(sentence_of(1, [](int) { ::_exit(3); }),
            "SpawnError of 0: rank 0 of 1 exited with status 3 before its function returned");
  EXPECT_EQ(sentence_of(1, [](int) { throw 5; }),
            "SpawnError of 0: rank 0 of 1: it threw something that is no std::exception");
}

TEST(Spawn, EndsAllAtItsTimeoutThoughTheyIgnoreSigterm) {
  const Shared<Pids> pids;
  const auto run = [&](int rank) {
    ::signal(SIGTERM, SIG_IGN);
    pids->of_rank[rank] = ::getpid();
    stay();
  };
  EXPECT_EQ(sentence_of(2, run, {.timeout = 500ms}),
            "spawn: the 2 processes did not return in 500 ms, and were ended");
  EXPECT_TRUE(all_are_gone(*pids.operator->()));
}

// The ranks are the test's grandchildren, and become its children when their parent is killed.
TEST(Spawn, LeavesNothingBehindWhenTheParentIsKilled) {
  ASSERT_EQ(::prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
  const Shared<Pids> pids;
  const pid_t parent = ::fork();
  if (parent == 0) {
    ::alarm(30);
    spawn(3, [&](int rank) {
      const auto group = init_process_group({.backend = "gloo"});
      pids->of_rank[rank] = ::getpid();
      stay();
    });
    ::_exit(0);
  }
  const auto all_run = [&] {
    return pids->of_rank[0] > 0 && pids->of_rank[1] > 0 && pids->of_rank[2] > 0;
  };
  ASSERT_TRUE(poll_until(deadline_in(20s), all_run));
  ::kill(parent, SIGKILL);
  int count = 0;
  const auto is_reaped = [&] {
    while (::waitpid(-1, nullptr, WNOHANG) > 0) ++count;
    return count == 4;
  };
  EXPECT_TRUE(poll_until(deadline_in(20s), is_reaped));
  EXPECT_TRUE(all_are_gone(*pids.operator->()));
}

TEST(Spawn, WritesWhatWasPrintedOnce) {
  ::testing::internal::CaptureStdout();
  std::cout << "before;";
  spawn(2, [](int rank) {
    if (rank == 1) std::cout << " rank 1;";
  });
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "before; rank 1;");
}

// The parent is not asked, since asking starts threads. One core has no shares.
TEST(Spawn, GivesEachRankItsShareOfThreads) {
  const Shared<Pids> whole, shares;
  spawn(1, [&](int) { whole->sum = at::get_num_threads(); });
  spawn(2, [&](int) { shares->sum += at::get_num_threads(); });
  EXPECT_EQ(shares->sum, 2 * std::max(1, whole->sum / 2));
}

TEST(Spawn, RefusesToForkBesideOtherThreads) {
  std::atomic<bool> is_over = false;
  std::thread other([&] {
    while (!is_over) std::this_thread::yield();
  });
  const std::string sentence = sentence_of(2, [](int) {});
  is_over = true;
  other.join();
  EXPECT_EQ(sentence,
            "spawn forks, and a process forked beside other threads may hang: this one has 2 "
            "threads; call spawn at the start of main(), before any backward pass, data loader or "
            "process group");
  EXPECT_EQ(sentence_of(0, [](int) {}), "spawn: process_count is 0, expected at least 1");
  EXPECT_EQ(sentence_of(1, [](int) {}, {.timeout = -1ms}),
            "spawn: timeout is -1 ms, expected a positive time");
}

}  // namespace
}  // namespace lockstep
