// Branches of a Training's network that do their part in a step of a rank, or do not: the case's
// seed decides.
#pragma once

#include "harness/base/values.h"
#include "scenarios/cases/training.h"

namespace lockstep::scenarios {

// One branch in three is unused on all ranks; each rank uses every second one of the others.
inline bool is_used(const Training& c, int step, int rank, int branch) {
  if (branch == 0) return true;
  const auto drawn = [&](int who) {
    return bits_at({.seed = c.seed,
                    .stream = Stream::order,
                    .rank = static_cast<uint64_t>(who),
                    .step = c.options.static_graph ? 0 : static_cast<uint64_t>(step),
                    .index = static_cast<uint64_t>(branch)});
  };
  return drawn(1000) % 3 != 0 && drawn(rank) % 2 == 0;
}

// On every second rank a branch of a step passes no gradient on, but in the first.
inline bool is_silent(const Training& c, int step, int rank, int branch) {
  if (step == 0) return false;
  return bits_at({.seed = c.seed,
                  .stream = Stream::order,
                  .rank = static_cast<uint64_t>(rank),
                  .step = static_cast<uint64_t>(step),
                  .index = static_cast<uint64_t>(branch)}) %
             2 ==
         0;
}

}  // namespace lockstep::scenarios
