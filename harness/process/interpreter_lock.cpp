#include "harness/process/interpreter_lock.h"

namespace lockstep {

namespace {
InterpreterLock lock_of_this_process;
}

void set_interpreter_lock(const InterpreterLock& lock) {
  lock_of_this_process = lock;
}

void* release_interpreter_lock() {
  return lock_of_this_process.release != nullptr ? lock_of_this_process.release() : nullptr;
}

void take_interpreter_lock(void* released) {
  if (lock_of_this_process.take != nullptr) lock_of_this_process.take(released);
}

}  // namespace lockstep
