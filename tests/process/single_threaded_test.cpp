#include "harness/process/single_threaded.h"

#include "harness/cases/tier.h"

#include <gtest/gtest.h>

#include <functional>
#include <mutex>
#include <sys/wait.h>
#include <thread>
#include <type_traits>
#include <unistd.h>

namespace lockstep {
namespace {

static_assert(!std::is_copy_constructible_v<SingleThreaded>);

std::string reason(const std::function<void()>& trial) {
  try {
    trial();
  } catch (const TierError& error) {
    return error.what();
  }
  return "";
}

// A thread that lives as long as this.
class Second {
 public:
  Second() : lock_(held_), thread_([this] { const std::lock_guard lock(held_); }) {}
  ~Second() {
    lock_.unlock();
    thread_.join();
  }

 private:
  std::mutex held_;
  std::unique_lock<std::mutex> lock_;
  std::thread thread_;
};

constexpr char kTwo[] = "a process must be forked while the program has one thread; it has 2";

TEST(SingleThreaded, IsNotMadeBesideASecondThread) {
  const Second second;
  EXPECT_EQ(reason([] { SingleThreaded(); }), kTwo);
}

TEST(SingleThreaded, DoesNotForkBesideAThreadThatWasMadeSince) {
  const SingleThreaded alone;
  const Second second;
  EXPECT_EQ(reason([&] { alone.fork(); }), kTwo);
}

TEST(SingleThreaded, DoesNotForkOnceItWasMovedNorInAnotherProcess) {
  SingleThreaded first;
  const SingleThreaded second(std::move(first));
  const auto why = [&](const SingleThreaded& alone) { return reason([&] { alone.fork(); }); };
  EXPECT_NE(why(first).find("is of another process, or moved"), std::string::npos);
  const pid_t child = second.fork();
  ASSERT_GE(child, 0);
  if (child == 0) _exit(why(second).empty() ? 1 : 0);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "the child forked with its parent's proof";
}

}  // namespace
}  // namespace lockstep
