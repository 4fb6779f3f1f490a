// The lock of an interpreter that was loaded into this process, which the thread that runs its code
// holds. Simulated ranks are threads that take turns: one that stops in the middle of such code
// must give the lock to the next.
#pragma once

namespace lockstep {

struct InterpreterLock {
  // Gives the lock back if this thread holds it, and returns it; null: it did not.
  void* (*release)() = nullptr;
  void (*take)(void* released) = nullptr;  // as release() returned it
};

// Before the first thread, once.
void set_interpreter_lock(const InterpreterLock& lock);

// As above, and nothing where no interpreter was loaded.
void* release_interpreter_lock();
void take_interpreter_lock(void* released);

}  // namespace lockstep
