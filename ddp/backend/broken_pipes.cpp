#include "ddp/backend/broken_pipes.h"

#include <ctime>

namespace lockstep {

BrokenPipesAreErrors::BrokenPipesAreErrors() {
  ::sigemptyset(&broken_pipe_);
  ::sigaddset(&broken_pipe_, SIGPIPE);
  sigset_t pending;
  ::sigpending(&pending);
  was_pending_ = ::sigismember(&pending, SIGPIPE) == 1;
  ::pthread_sigmask(SIG_BLOCK, &broken_pipe_, &before_);
}

BrokenPipesAreErrors::~BrokenPipesAreErrors() {
  const timespec no_time{};
  if (!was_pending_) ::sigtimedwait(&broken_pipe_, nullptr, &no_time);  // drop our own signal
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

}  // namespace lockstep
