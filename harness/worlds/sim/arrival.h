// When the ranks of a simulated world have the result of a collective in their tensors. No torch.
#pragma once

#include "harness/base/case.h"

namespace lockstep::sim {

class Arrival {
 public:
  explicit Arrival(const Schedule& schedule) : when_(schedule.results), seed_(schedule.seed) {}

  // True if the member has it only once it has waited for this collective, the `number`-th of its
  // group.
  bool is_late(int64_t number, size_t member) const;

 private:
  const ResultTime when_;
  const uint64_t seed_;
};

}  // namespace lockstep::sim
