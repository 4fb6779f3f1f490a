// The memory that a lane shares with all the processes it has forked: the meeting, the store, a
// board for stacks, and a journal for each rank.
#pragma once

#include "harness/process/shared_memory.h"
#include "harness/process/stacks.h"
#include "harness/world/forked/meeting.h"
#include "harness/world/tiers.h"

#include <atomic>
#include <span>

namespace lockstep {

class LaneMemory {
 public:
  explicit LaneMemory(const ForkedOptions& options);

  SharedMemory region;
  Meeting& meeting;
  std::atomic<int>& running;  // the rank that runs in a simulated world, or -1
  StackBoard& stacks;         // where threads of a hanging rank write where they are
  std::span<std::byte> store;

  // Of rank `rank` in a world of `size`; the journals of a large world are shorter.
  std::span<std::byte> journal(int rank, int size) const;

  // For a new case of `size` ranks, or for as many that are to meet.
  void clear(int size) const;

 private:
  std::span<std::byte> journals_;
  const size_t journal_bytes_;
};

}  // namespace lockstep
