#include "harness/campaign/slots.h"

#include <algorithm>

namespace lockstep {

int Slots::take(int ranks) {
  std::unique_lock lock(mutex_);
  const int wanted = std::min(ranks, all_);
  const uint64_t ticket = next_ticket_++;
  changed_.wait(lock, [&] { return closed_ || (ticket == now_serving_ && free_ >= wanted); });
  if (closed_) return 0;
  ++now_serving_;
  free_ -= wanted;
  changed_.notify_all();
  return wanted;
}

void Slots::give_back(int taken) {
  const std::lock_guard lock(mutex_);
  free_ += taken;
  changed_.notify_all();
}

void Slots::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

}  // namespace lockstep
