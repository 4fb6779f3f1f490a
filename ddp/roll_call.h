#pragma once

#include "ddp/communicator.h"

#include <cstdint>
#include <vector>

namespace lockstep {

// What a rank in a join is about to do.
enum class NextStep : std::int64_t { out_of_inputs, local_forward, synchronised_forward };

// Note [A roll call is a gather]
// Before each forward in a join ranks ask each other who still has inputs. A sum of ones would tell
// how many; what each rank says, gathered, tells who, and that those who go on do the same: one
// exchange where there would be two or three. It has the size of an agreement's first message, so
// that a rank that has called join() or update_process_group() meanwhile is told apart from one
// that is in its loop. And Gloo keeps gathers apart from the sums of buckets: a rank that is a step
// behind makes its peers wait until the deadline, where sums of different sizes would abort it.

// Every rank's next step, in rank order. Collective; blocks. Throws DisagreementError with the same
// sentence on every rank if those that have inputs do different things; CommunicationError.
std::vector<NextStep> call_roll(Communicator& communicator, NextStep mine);

// Throws UnevenInputsError if some ranks are out of inputs and some are not; `forward_count` is how
// many forwards all of them have made. Local.
void require_even(const std::vector<NextStep>& all, std::int64_t forward_count);

}  // namespace lockstep
