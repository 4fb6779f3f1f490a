// The epoll_wait of Note [Gloo's stall].
#include "harness/worlds/gloo/gloo.h"

#include <atomic>
#include <dlfcn.h>
#include <sched.h>
#include <sys/epoll.h>

namespace {

std::atomic<bool> cured{true};

using EpollWait = int (*)(int, epoll_event*, int, int);

constexpr int kImmediateReturns = 4;

}  // namespace

namespace lockstep {

// A call of this function from another file also makes the linker take this file.
void cure_gloo_stalls(bool on) {
  cured.store(on, std::memory_order_relaxed);
}

}  // namespace lockstep

extern "C" __attribute__((visibility("default"))) int epoll_wait(int descriptor,
                                                                 epoll_event* events, int most,
                                                                 int timeout) {
  static const auto real = reinterpret_cast<EpollWait>(dlsym(RTLD_NEXT, "epoll_wait"));
  if (!cured.load(std::memory_order_relaxed)) return real(descriptor, events, most, timeout);
  thread_local int immediate = 0;
  const int count = real(descriptor, events, most, 0);
  if (count != 0) {
    if (++immediate > kImmediateReturns) sched_yield();
    return count;
  }
  immediate = 0;
  return timeout == 0 ? 0 : real(descriptor, events, most, timeout);
}
