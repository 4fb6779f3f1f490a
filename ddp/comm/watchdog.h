#pragma once

#include "ddp/comm/failure_notice.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

// Note [Ranks that do not wait]
// If nothing comes from one peer, every live rank ends up waiting, and each would report the same.
// So a rank that has waited for half of its timeout gives signs of life in the store. A rank that
// has given none since three quarters of the timeout, when it expires, is not waiting: it is slow,
// stopped or cut off. A rank that began to wait up to half a timeout later is still recognised.
// With the signs a rank says what it waits for, in whichever communicator of the group.
//
// Finds out during one wait which peers do not wait. Everything is Local.
class Watchdog {
 public:
  // `notice` may be null or without a store: then no rank is named. Nor is one named if the timeout
  // is shorter than two seconds, since a wait polls ten times a second. `notice` must outlive this.
  // `awaited` names the operation.
  Watchdog(FailureNotice* notice, int rank, int world_size, std::chrono::milliseconds timeout,
           std::string awaited);

  // Called repeatedly during the wait. Mostly does nothing, else makes one or `world_size`
  // exchanges with the store.
  void look(std::chrono::milliseconds waited);

  // Returns the end of the timeout error: "; these ranks do not wait as this one does: 2-3 (...)",
  // "; rank 1 waits for ...", or "" where nothing is known.
  std::string who_does_not_wait();

 private:
  std::string what_others_wait_for(const std::vector<int>& waiting) const;

  FailureNotice* const notice_;
  const int rank_;
  const int world_size_;
  const std::chrono::milliseconds timeout_;
  const std::string awaited_;
  std::chrono::milliseconds next_sign_;
  bool has_looked_ = false;
  std::optional<std::vector<std::int64_t>> signs_;
};

}  // namespace lockstep
