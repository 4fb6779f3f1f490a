#pragma once

#include <csignal>

namespace lockstep {

// Note [A dead peer and SIGPIPE]
// Gloo writes to sockets without MSG_NOSIGNAL, so a peer's death silently kills a C++ process that
// happens to write at that moment (Python ignores the signal from its start). The signal goes to
// the thread that writes, and threads inherit the mask of their creator: blocking it here, while
// Gloo makes its threads and connects, turns it into an error for good and leaves the process's own
// handling unchanged. Split groups have threads of their own.

// During its lifetime this thread, and for good the threads that it makes, get an error from a
// broken pipe instead of a signal.
class BrokenPipesAreErrors {
 public:
  BrokenPipesAreErrors();
  ~BrokenPipesAreErrors();
  BrokenPipesAreErrors(const BrokenPipesAreErrors&) = delete;
  BrokenPipesAreErrors& operator=(const BrokenPipesAreErrors&) = delete;

 private:
  sigset_t broken_pipe_;
  sigset_t before_;
  bool was_pending_ = false;
};

}  // namespace lockstep
