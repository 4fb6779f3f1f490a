// Native stacks of processes that hang, taken from outside.
//
// A thread that is told by a signal writes its own return addresses into memory that both processes
// share; whoever asked reads them there. What a thread that cannot do so is up to (its process is
// stopped, it blocks the signal) the kernel tells.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <sys/types.h>
#include <vector>

namespace lockstep {

struct ThreadStack {
  int thread = 0;
  std::string name;              // as the process gave it, or of the program
  std::vector<uint64_t> frames;  // return addresses, innermost first
  std::string instead;           // what the kernel says, where there are no frames
  bool operator==(const ThreadStack&) const = default;
};

// The memory, all zero at first.
struct StackBoard {
  static constexpr size_t kThreadsMost = 64;
  static constexpr size_t kFramesMost = 62;
  struct Slot {
    std::atomic<int> thread;  // set first
    std::atomic<int> count;   // of frames; set last
    uint64_t frames[kFramesMost];
  };
  std::atomic<uint32_t> used;
  Slot slots[kThreadsMost];
};

// In a process before it forks those that may be looked at: from here on they answer.
void answer_on(StackBoard& board);

// The main thread first. Waits at most `patience` for answers. One at a time for a board.
std::vector<ThreadStack> stacks_of(pid_t pid, StackBoard& board,
                                   std::chrono::milliseconds patience);

// This thread's own return addresses, innermost first, without this function's; answer_on has been
// called before, here or in a process that this one was forked from.
std::vector<uint64_t> own_stack();

// What is known of a frame: a line for its function and one for each that this was inlined into.
// `is_librarys`: from a header of LibTorch, or of a file without lines.
struct FrameLine {
  std::string text;
  bool is_librarys = false;
};

// By address, each as the return address of a call. For frames of a process that was forked from
// this one, so that both have everything at the same addresses.
using KnownFrames = std::map<uint64_t, std::vector<FrameLine>>;
KnownFrames lines_at(const std::set<uint64_t>& addresses);

// A line a frame: function, file and line as far as they are known. `known` has all frames of the
// stack.
std::vector<std::string> lines_of(const ThreadStack& stack, const KnownFrames& known);

}  // namespace lockstep
