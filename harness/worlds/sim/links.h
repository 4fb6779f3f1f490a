// The cost of a collective in the virtual time of a simulated world. No torch.
#pragma once

#include "harness/base/case.h"

#include <chrono>
#include <string>
#include <vector>

namespace lockstep::sim {

// All times are those of the case; a world without a timing costs nothing.
class Links {
 public:
  explicit Links(const Timing& timing) : timing_(timing) {}

  // How long `op` on `bytes` per rank takes among `ranks`, from the arrival of the last one:
  // consecutive messages, each with its latency and its part of the bytes, over the slowest link of
  // the ring of these ranks.
  std::chrono::nanoseconds cost(const std::string& op, int64_t bytes,
                                const std::vector<int>& ranks) const;

  // How long `rank` takes for `work`.
  std::chrono::nanoseconds computing(int rank, std::chrono::nanoseconds work) const;

 private:
  std::chrono::nanoseconds message(int64_t bytes, int from, int to) const;

  const Timing timing_;
};

}  // namespace lockstep::sim
