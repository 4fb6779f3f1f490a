#include "harness/worlds/forked/exit_barrier.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace lockstep {

namespace {

using Clock = std::chrono::steady_clock;

constexpr uint32_t kCalledOff = 1u << 30;

void wake_all(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE, INT32_MAX, nullptr, nullptr,
          0);
}

// Returns at a change of `word`, and at least twenty times a second.
void sleep_on(std::atomic<uint32_t>& word, uint32_t seen) {
  const timespec slice{0, 50'000'000};
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT, seen, &slice, nullptr, 0);
}

}  // namespace

void ExitBarrier::wait_for_others(int size, Clock::time_point until) {
  uint32_t here = returned.fetch_add(1) + 1;
  if (here == static_cast<uint32_t>(size)) wake_all(returned);
  while (here < static_cast<uint32_t>(size) && Clock::now() < until) {
    sleep_on(returned, here);
    here = returned.load();
  }
}

void ExitBarrier::call_off() {
  returned.fetch_add(kCalledOff);
  wake_all(returned);
}

}  // namespace lockstep
