// Native stacks of processes that hang, taken from outside, and of processes that crash.
//
// A thread that gets a signal writes its own return addresses into memory shared by both processes,
// where the other process reads them. For a thread that cannot do so (its process is stopped, it
// blocks the signal) the kernel's state of it is used. A crashing thread does the same in its
// signal handler, except for SIGKILL, which no process can handle.
#pragma once

#include "harness/base/stack_frame.h"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <sys/types.h>
#include <vector>

namespace lockstep {

struct ThreadStack {
  int thread = 0;
  std::string name;              // as the process set it, or the program's
  std::vector<uint64_t> frames;  // return addresses, innermost first
  std::string instead;           // the kernel's state of it, where there are no frames
  bool is_stopped = false;       // by a signal, or by a debugger
  bool operator==(const ThreadStack&) const = default;
  static constexpr auto fields() {
    return std::tuple{field("thread", &ThreadStack::thread, at_least(0)),
                      field("name", &ThreadStack::name, text_up_to(200)),
                      field("frames", &ThreadStack::frames, at_most(1024, {})),
                      field("instead", &ThreadStack::instead, text_up_to(1u << 16)),
                      field("is_stopped", &ThreadStack::is_stopped)};
  }
};

// The memory, all zero at first.
struct StackBoard {
  static constexpr size_t kThreadsMost = 64;
  static constexpr size_t kFramesMost = 62;
  static constexpr size_t kNameBytes = 16;  // as much as the kernel holds
  struct Slot {
    std::atomic<int> thread;  // set first
    std::atomic<int> count;   // of frames; set last
    char name[kNameBytes];    // of the thread
    uint64_t frames[kFramesMost];
  };
  std::atomic<uint32_t> used;
  Slot slots[kThreadsMost];
};

// In a process before it forks those that may be inspected: from here on they reply.
void answer_on(StackBoard& board);

// The main thread first. Waits at most `patience` for replies. One call at a time for a board.
std::vector<ThreadStack> stacks_of(pid_t pid, StackBoard& board,
                                   std::chrono::milliseconds patience);

// From here on, a thread of this process that crashes (SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT,
// SIGTRAP or SIGSYS) writes its stack into `slot` before the signal ends the process as usual; only
// the first one does. Signals that the process handles, as under a sanitizer, are left alone. This
// thread gets a SignalStack. A process that is forked from this one must call it again.
void record_crash_in(StackBoard::Slot& slot);

// A stack on which the calling thread handles signals while this lives, so that a thread whose own
// stack has overflowed can still write its stack. Only for the thread that made it.
class SignalStack {
 public:
  SignalStack();
  ~SignalStack();
  SignalStack(const SignalStack&) = delete;
  SignalStack& operator=(const SignalStack&) = delete;

 private:
  std::unique_ptr<std::byte[]> memory_;
};

// The stack that a process wrote as it crashed; nothing where it did not. Call it once the process
// is gone.
std::optional<ThreadStack> crash_in(const StackBoard::Slot& slot);

// Clears the slot for the next process.
void clear(StackBoard::Slot& slot);

// This thread's own return addresses, innermost first, without this function's; answer_on has been
// called before, here or in a process that this one was forked from.
std::vector<uint64_t> own_stack();

// The frames at each return address of a call: one for its function and one for each function that
// this was inlined into. For addresses of a process that was forked from this one, so that both
// have everything at the same addresses. Once `is_stopped`, which is polled from this thread, the
// functions' names stand for lines that were not looked up yet.
using KnownFrames = std::map<uint64_t, Stack>;
KnownFrames frames_at(
    const std::set<uint64_t>& addresses,
    const std::function<bool()>& is_stopped = [] { return false; });

// The frames of a stack, all of whose addresses `known` has.
Stack frames_of(const ThreadStack& stack, const KnownFrames& known);

}  // namespace lockstep
