// The memory that a lane shares with all the processes it has forked: the exit_barrier, the store,
// a board for stacks, a slot for the stack of each process that crashes, and a journal for each
// rank.
#pragma once

#include "harness/process/shared_memory.h"
#include "harness/process/stacks.h"
#include "harness/worlds/forked/exit_barrier.h"
#include "harness/worlds/tiers.h"

#include <atomic>
#include <span>

namespace lockstep {

class LaneMemory {
 public:
  explicit LaneMemory(const ForkedOptions& options);

  SharedMemory region;
  ExitBarrier& exit_barrier;
  std::atomic<int>& running;            // the rank that runs in a simulated world, or -1
  StackBoard& stacks;                   // where threads of a hanging rank write their stacks
  std::span<StackBoard::Slot> crashes;  // by the process's number in its group
  std::span<std::byte> store;

  // Returns the journal of rank `rank` in a world of `size`; the journals of a large world are
  // shorter.
  std::span<std::byte> journal(int rank, int size) const;

  // For a new case of `size` ranks, or for as many that are to rendezvous.
  void clear(int size) const;

 private:
  std::span<std::byte> journals_;
  const size_t journal_bytes_;
};

}  // namespace lockstep
