#include "harness/worlds/sim/arrival.h"

#include "harness/base/values.h"

namespace lockstep::sim {

bool Arrival::is_late(int64_t number, size_t member) const {
  if (when_ != ResultTime::drawn) return when_ == ResultTime::at_wait;
  return bits_at({.seed = seed_,
                  .stream = Stream::schedule,
                  .rank = member,
                  .step = 1,  // a chooser's numbers have step 0
                  .index = static_cast<uint64_t>(number)}) %
             2 ==
         1;
}

}  // namespace lockstep::sim
