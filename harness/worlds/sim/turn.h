// A semaphore of one permit that sleeps at once. std::binary_semaphore yields the processor several
// times first, and the threads of a simulated world share one.
#pragma once

#include <semaphore.h>

namespace lockstep::sim {

class Turn {
 public:
  Turn() { sem_init(&permits_, 0, 0); }
  ~Turn() { sem_destroy(&permits_); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  void release() { sem_post(&permits_); }
  // Blocks until a permit was released; a signal handler that runs meanwhile does not end it.
  void acquire() {
    while (sem_wait(&permits_) != 0) {
    }
  }

 private:
  sem_t permits_;
};

}  // namespace lockstep::sim
