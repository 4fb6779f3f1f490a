// Lets virtual time pass while a rank computes.
#pragma once

#include "harness/base/case.h"

#include <chrono>
#include <functional>

namespace lockstep::sim {

// While it lives, every operation on tensors that this thread calls directly costs what `timing`
// says, those of a backward pass too; the operations that they call in turn cost nothing more.
class ComputeTime {
 public:
  ComputeTime(const Timing& timing, std::function<void(std::chrono::nanoseconds)> pass);
  ~ComputeTime();
  ComputeTime(const ComputeTime&) = delete;
  ComputeTime& operator=(const ComputeTime&) = delete;

 private:
  uint64_t handle_ = 0;
};

}  // namespace lockstep::sim
