// Results of a pass that are read later: the flags of a device, and a failure.
#include "ddp/errors.h"
#include "ddp/reducer/reducer.h"

#include <torch/torch.h>

namespace lockstep {

void Reducer::check_finished(std::size_t lag) {
  std::unique_lock lock(mutex_);
  let_passes_end(lock);
  if (!failure_) read_late_flags(lag);
  const std::string rank = "rank " + std::to_string(communicator_->rank()) + ": ";
  if (failure_) {
    throw UnfinishedReductionError(rank + "an earlier reduction failed (" + *failure_ +
                                   "); update_process_group() begins anew on ranks that live");
  }
  if (pass_ == Pass::reduced) {
    throw UnfinishedReductionError(
        rank + "the backward pass before this is not over: it waits for the gradients of " +
        names_of(layout_->readiness.missing()));
  }
}

// Note [Flags of a device].
bool Reducer::flags_come_late() const {
  const auto* const bucket = std::get_if<Bucket>(&layout_->payloads.back());
  return bucket != nullptr && communicator_->streams_wait(bucket->flat().device());
}

void Reducer::read_late_flags(std::size_t lag) {
  until_communication_fails([&] {
    communicator_->look_until([&] { return late_flags_.have_come(lag); });
    if (lag == 0) communicator_->wait_for_what_is_under_way();
  });
  if (!late_flags_.one_is_raised()) return;
  give_up(
      "an earlier backward pass could not be averaged on all ranks, and what gradients held after "
      "it is of no use: " +
      communicator_->peer_error().value_or("a rank raised the flag and has not said why"));
  late_flags_.forget();
}

// On a device: an error that only this rank knows.
void Reducer::end_with_validation_error() {
  const std::string validation_error = validation_error_;
  close_pass();
  give_up("rank " + std::to_string(communicator_->rank()) +
          ": a backward pass could not be averaged: " + validation_error);
  throw UnfinishedReductionError(*failure_ + "; update_process_group() begins anew on all ranks");
}

}  // namespace lockstep
