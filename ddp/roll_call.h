#pragma once

#include "ddp/communicator.h"

#include <cstdint>
#include <vector>

namespace lockstep {

// What a rank in a join is about to do.
struct NextStep {
  enum class Kind : std::int64_t { out_of_inputs, local_forward, synchronised_forward, backward };
  Kind kind = Kind::out_of_inputs;
  bool sends_buffers = false;

  bool operator==(const NextStep&) const = default;
};

// What all ranks have said: who is out of inputs, and who goes on, in rank order, to what.
struct RollCall {
  std::vector<std::size_t> out, going_on;
  NextStep next;  // of those who go on, if there are any
};

// Note [A roll call is a gather]
// Before each forward in a join ranks ask each other who still has inputs. A sum of ones would tell
// how many; what each rank says, gathered, tells who, and that those who go on do the same: one
// exchange where there would be two or three. It has the size of an agreement's first message, so
// that a rank that has called join() or update_process_group() meanwhile is told apart from one
// that is in its loop. And Gloo keeps gathers apart from the sums of buckets: a rank that is a step
// behind makes its peers wait until the deadline, where sums of different sizes would abort it.

// Collective; blocks. Throws DisagreementError with the same sentence on every rank if those that
// have inputs do different things; CommunicationError.
RollCall call_roll(Communicator& communicator, const NextStep& mine);

// Throws UnevenInputsError if some ranks are out of inputs and some are not; `forward_count` is how
// many forwards all of them have made. Local.
void require_even(const RollCall& roll, std::int64_t forward_count);

}  // namespace lockstep
