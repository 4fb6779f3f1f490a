#include "ddp/comm/watchdog.h"

#include "ddp/base/disagreement.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

namespace lockstep {

namespace {

constexpr std::chrono::seconds kShortest{2};
constexpr int kSignsInATimeout = 8;
constexpr std::size_t kAsked = 16;  // one round trip each

}  // namespace

Watchdog::Watchdog(FailureNotice* notice, int rank, int world_size,
                   std::chrono::milliseconds timeout, std::string awaited)
    : notice_(timeout >= kShortest && notice != nullptr && notice->had_store() ? notice : nullptr),
      rank_(rank),
      world_size_(world_size),
      timeout_(timeout),
      awaited_(std::move(awaited)),
      next_sign_(timeout / 2) {}

void Watchdog::look(std::chrono::milliseconds waited) {
  if (notice_ == nullptr || waited < next_sign_) return;
  notice_->give_sign_of_life(awaited_);
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
  std::vector<int> silent, waiting;
  for (int rank = 0; rank < world_size_; ++rank) {
    const auto index = static_cast<std::size_t>(rank);
    if (rank == rank_) continue;
    ((*now)[index] == (*signs_)[index] ? silent : waiting).push_back(rank);
  }
  const std::string others = what_others_wait_for(waiting);
  if (silent.empty()) return "; all ranks wait" + others;
  return "; these ranks do not wait as this one does: " + listed(silent) +
         " (slow, stopped, gone or cut off)" + others;
}

// "; rank 0 waits for broadcast of buffers (collective 7)", of those that wait for something else.
std::string Watchdog::what_others_wait_for(const std::vector<int>& waiting) const {
  std::map<std::string, std::vector<std::size_t>> by_operation;
  for (std::size_t i = 0; i < std::min(waiting.size(), kAsked); ++i) {
    const std::string awaited = notice_->awaited_by(waiting[i]);
    if (!awaited.empty() && awaited != awaited_)
      by_operation[awaited].push_back(static_cast<std::size_t>(waiting[i]));
  }
  std::string text;
  for (const auto& [awaited, ranks] : by_operation)
    text += "; " + name_ranks(ranks) + (ranks.size() == 1 ? " waits" : " wait") + " for " + awaited;
  return text;
}

}  // namespace lockstep
