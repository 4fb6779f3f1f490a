// Rank slots: how many ranks may live at once, over all lanes. A case of W ranks takes W slots, or
// all slots if W is larger; requests are served in order, so that large worlds get their turn among
// small ones.
#pragma once

#include "harness/base/tier_errors.h"

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace lockstep {

class Slots {
 public:
  explicit Slots(int slots) : all_(slots), free_(slots) {}

  // Blocks until the slots are free; returns how many were taken, or 0 after close().
  int take(int ranks);
  void give_back(int taken);

  // From now on no thread waits and none gets a slot.
  void close();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  const int all_;
  int free_;
  uint64_t next_ticket_ = 0, now_serving_ = 0;
  bool closed_ = false;
};

// Slots for as long as it lives. Throws Interrupted where they are closed.
class TakenSlots {
 public:
  TakenSlots(Slots& slots, int ranks) : slots_(slots), taken_(slots.take(ranks)) {
    if (taken_ == 0) throw Interrupted();
  }
  ~TakenSlots() { slots_.give_back(taken_); }
  TakenSlots(const TakenSlots&) = delete;
  TakenSlots& operator=(const TakenSlots&) = delete;

 private:
  Slots& slots_;
  const int taken_;
};

}  // namespace lockstep
