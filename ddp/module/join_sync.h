#pragma once

#include "ddp/comm/communicator.h"

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

// The next step of a rank in a join.
struct NextStep {
  enum class Kind : std::int64_t {
    out_of_inputs,
    local_forward,
    synchronised_forward,
    backward,
    call_of_joinable
  };
  Kind kind = Kind::out_of_inputs;
  bool sends_buffers = false;
  std::size_t joinable = 0;  // whose call it is: its place in the join

  bool operator==(const NextStep&) const = default;
};

// The result of the exchange, in rank order: the ranks that are out of inputs, the active ranks,
// and the active ranks' next step.
struct JoinSync {
  std::vector<std::size_t> exhausted, active;
  NextStep next;  // of the active ranks, if there are any
};

// Note [join_sync is a gather]
// Before each forward in a join the ranks exchange whether they still have inputs. A sum of ones
// would say how many do; a gather of each rank's next step says which ranks do, and that the active
// ranks do the same: one exchange instead of two or three. It has the size of an agreement's first
// message, so that a rank that has called join() or update_process_group() meanwhile is recognised.
// And Gloo keeps gathers separate from the sums of buckets: a rank that is a step behind makes its
// peers wait until the deadline, where sums of different sizes would abort it.

// Collective; blocks. Throws DisagreementError with the same sentence on every rank if the ranks
// that have inputs take different steps; CommunicationError.
// `joinables`: their names, in the join's order.
JoinSync synchronise_join(Communicator& communicator, const NextStep& mine,
                          const std::vector<std::string>& joinables);

// Throws UnevenInputsError if some ranks are out of inputs and some are not; `forward_count` and
// `call_count` are how many forwards and calls of joinables all of them have made. Local.
void require_even(const JoinSync& sync, std::int64_t forward_count, std::int64_t call_count);

}  // namespace lockstep
