#include "ddp/comm/watchdog.h"

#include "ddp/base/disagreement.h"

#include <cstddef>

namespace lockstep {

namespace {

constexpr std::chrono::seconds kShortest{2};
constexpr int kSignsInATimeout = 8;

}  // namespace

Watchdog::Watchdog(FailureNotice* notice, int rank, int world_size,
                   std::chrono::milliseconds timeout)
    : notice_(timeout >= kShortest && notice != nullptr && notice->had_store() ? notice : nullptr),
      rank_(rank),
      world_size_(world_size),
      timeout_(timeout),
      next_sign_(timeout / 2) {}

void Watchdog::look(std::chrono::milliseconds waited) {
  if (notice_ == nullptr || waited < next_sign_) return;
  notice_->give_sign_of_life();
  next_sign_ = waited + timeout_ / kSignsInATimeout;
  if (has_looked_ || waited < timeout_ * 3 / 4) return;
  has_looked_ = true;
  signs_ = notice_->signs_of_life(world_size_);
}

std::string Watchdog::who_does_not_wait() {
  if (!has_looked_) return "";
  const auto now = signs_ ? notice_->signs_of_life(world_size_) : std::nullopt;
  if (!now) {
    return "; nor does the store of the group answer: the process that serves it, mostly rank 0's, "
           "is stopped, gone or cut off";
  }
  std::vector<int> silent;
  for (int rank = 0; rank < world_size_; ++rank) {
    const auto index = static_cast<std::size_t>(rank);
    if (rank != rank_ && (*now)[index] == (*signs_)[index]) silent.push_back(rank);
  }
  if (silent.empty()) return "; all ranks wait";
  return "; these ranks do not wait as this one does: " + listed(silent) +
         " (slow, stopped, gone or cut off)";
}

}  // namespace lockstep
