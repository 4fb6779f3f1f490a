#pragma once

#include "ddp/failure_notice.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

// Note [Who does not wait]
// Where nothing comes from a peer, every rank that lives ends up waiting, and each would say the
// same. So a rank that has waited for half of its time gives signs of life in the store; one that
// has none since three quarters of it, when the time is up, is none that waits: it is slow, stopped
// or cut off. One that began to wait by half of the time later is seen all the same.
//
// One wait. Everything is Local.
class LongWait {
 public:
  // `notice` may be null or without a store: then nobody is named, and neither where the time is
  // shorter than two seconds, since a wait looks up ten times in a second. It must outlive this.
  LongWait(FailureNotice* notice, int rank, int world_size, std::chrono::milliseconds timeout);

  // To be called again and again. Mostly does nothing, else one or `world_size` exchanges with the
  // store.
  void look(std::chrono::milliseconds waited);

  // When the time is up, behind a sentence: "; these ranks do not wait as this one does: 2-3
  // (...)". Empty where nothing can be said.
  std::string who_does_not_wait();

 private:
  FailureNotice* const notice_;
  const int rank_;
  const int world_size_;
  const std::chrono::milliseconds timeout_;
  std::chrono::milliseconds next_sign_;
  bool has_looked_ = false;
  std::optional<std::vector<std::int64_t>> signs_;
};

}  // namespace lockstep
