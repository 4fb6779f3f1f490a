#include "harness/process/affinity.h"

#include <utility>

namespace lockstep {

void Affinity::pin_to(std::optional<int> core) {
  if (!core) return unpin();
  if (before_) return;
  cpu_set_t allowed, one;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return;
  CPU_ZERO(&one);
  CPU_SET(static_cast<size_t>(*core), &one);
  if (sched_setaffinity(0, sizeof(one), &one) == 0) before_ = allowed;
}

void Affinity::unpin() {
  if (const auto before = std::exchange(before_, {}))
    sched_setaffinity(0, sizeof(*before), &*before);
}

}  // namespace lockstep
