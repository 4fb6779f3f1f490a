#pragma once

#include <csignal>

namespace lockstep {

// Note [A dead peer and SIGPIPE]
// Gloo writes to sockets without MSG_NOSIGNAL, so a peer's death kills a C++ process that happens
// to write at that moment, without a word (Python ignores the signal from its start). The signal
// goes to the thread that writes, and threads inherit the mask of their creator: blocking it here,
// while Gloo makes its threads and connects, turns it into an error for good and leaves the
// process's own handling alone. Parts of a group have threads of their own.

// While one lives, this thread, and those that it makes for good, take a broken pipe for an error.
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
