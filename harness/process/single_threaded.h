// Proof that this process has one thread. Every call that forks takes it: a fork copies the locks
// of other threads but not the threads, so that a child would wait for them without end.
#pragma once

#include <sys/types.h>

namespace lockstep {

// Made first thing in main, before any thread and any call of LibTorch, and again in each process
// that forks others. Moved into the last call that forks; then threads may be made.
class SingleThreaded {
 public:
  // Throws TierError if this process has a second thread.
  SingleThreaded();

  // The source proves nothing any more.
  SingleThreaded(SingleThreaded&& other) noexcept;
  SingleThreaded& operator=(SingleThreaded&&) = delete;

  // fork(): -1 and errno where the system refuses. Throws TierError where this proof was moved or
  // made in another process, or where a thread was made since.
  pid_t fork() const;

 private:
  pid_t process_;  // 0 once moved
};

// How many threads this process has.
int thread_count();

}  // namespace lockstep
