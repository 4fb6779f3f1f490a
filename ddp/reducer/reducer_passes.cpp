// Reducer's backward passes: how one begins, ends and fails.
#include "ddp/errors.h"
#include "ddp/reducer/reducer.h"
#include "ddp/reducer/unfinished.h"

#include <torch/torch.h>

#include <utility>

namespace lockstep {

void Reducer::on_output_gradient(bool synchronised) {
  if (failure_ || !hooks_) return;
  if (synchronised) remember_functions_of_gradients();
  if ((pass_ && pass_->is_reduced()) || !hooks_->may_be_reached_by_this_pass()) return;
  const bool reduces = synchronised || (!pass_ && forwards_.are_run_by_this_pass());
  if (!pass_) begin_pass();
  pass_->comes_through_an_output(reduces);
  if (reduces) reduce_pass();
}

// Note [Functions of gradients]. An end on another thread cannot know what this one has recorded.
void Reducer::remember_functions_of_gradients() {
  if (!at::GradMode::is_enabled() || std::exchange(gradients_are_recorded_, true)) return;
  at_end_of_this_pass(
      [reducer = weak_from_this(), recording = begin_recording()](bool thrown) mutable {
        const auto self = reducer.lock();
        if (!self) return;
        const std::lock_guard lock(self->mutex_);
        self->gradients_are_recorded_ = false;
        if (!thrown && finish_recording(recording)) self->forwards_.remember(recording);
      });
}

void Reducer::on_gradient(std::size_t index) {
  if (model_->parameters[index].grad().defined()) model_->usage.gradient_came(index);
  if (failure_) return;
  const bool begins = !pass_;
  if (begins) begin_pass();
  if (pass_->await_end()) call_at_end_of_this_pass(&Reducer::on_end);
  // First, since a reduced pass asks which gradients it has itself.
  until_communication_fails([&] { pass_->gradient_arrives(index); });
  if (begins && forwards_.reduce_this_pass()) reduce_pass();
}

void Reducer::begin_pass() {
  pass_ = std::make_shared<BackwardPass>(context());
  pass_->await_end();
  call_at_end_of_this_pass(&Reducer::on_end);
}

BackwardPass::Context Reducer::context() {
  return {.options = options_, .communicator = *communicator_, .model = *model_, .times = times_};
}

void Reducer::reduce_pass() {
  forwards_.clear_outstanding();
  model_->usage.pass_is_reduced();
  until_communication_fails([&] { pass_->reduce(ask_divisor_); });
}

// The callback does nothing if its pass is no longer observed when it runs.
void Reducer::call_at_end_of_this_pass(void (Reducer::*act)(bool thrown)) {
  ++*pending_end_callbacks_;
  at_end_of_this_pass([self = shared_from_this(), act, pass = std::weak_ptr(pass_),
                       to_come = std::weak_ptr(pending_end_callbacks_)](bool thrown) {
    const std::lock_guard lock(self->mutex_);
    const auto count = to_come.lock();
    if (count && --*count == 0) self->ends_have_come_.notify_all();
    if (!pass.expired()) ((*self).*act)(thrown);
  });
}

// Note [Nested backward passes]
// A checkpointed segment runs a backward pass inside a function of the outer one, and we await the
// end of the pass with the first gradient of a parameter or an output. With an output's that is the
// outer pass. Otherwise it may be the inner one, which ends while the outer one still has gradients
// to deliver; the next gradient awaits the end again.
void Reducer::on_end(bool thrown) {
  pass_->end_has_come();
  if (!pass_->is_reduced()) {
    if (!pass_->has_met_an_output()) tell_of_a_bare_pass();
    pass_.reset();
    return;
  }
  if (!thrown && is_inside_a_pass() && !pass_->buckets().all_are_packed() &&
      !pass_->came_through_an_output()) {
    return;
  }
  if (thrown && options_.ends_with_an_exception) {
    give_up("an exception was thrown in the backward pass");
    communicator_->report_thrown_backward(*failure_);
    return;
  }
  try {
    if (thrown) pass_->autograd_threw();
    times_.backward_computed();
    until_communication_fails([&] { pass_->launch_the_rest(left_out_, forward_count_); });
  } catch (const std::exception& error) {
    if (!thrown) throw;
    communicator_->report(first_line(error));  // the caller receives what autograd threw
  }
  if (thrown) {
    if (pass_) finish_pass(true);
    return;
  }
  call_at_end_of_this_pass(&Reducer::finish_pass);
}

// A program that calls the bare module's forward instead of the wrapped one trains an
// unsynchronised model. A probe or a penalty of the bare module is right, so it is no error.
void Reducer::tell_of_a_bare_pass() {
  if (!forwards_.sees_all_outputs() || pass_->arrivals().empty()) return;
  if (std::exchange(has_reported_a_bare_pass_, true)) return;
  TORCH_WARN(
      "DistributedDataParallel on rank ", communicator_->rank(),
      ": a backward pass brought the gradient of '",
      model_->parameters.name(pass_->arrivals().front()),
      "' and went through no output of ddp.forward, so it was not averaged: what it added to "
      ".grad is this rank's own until the next averaged pass. Call ddp.forward, not the "
      "module's own forward, where gradients are to be averaged. This is said once.");
}

// Note [Several instances in one pass]
// Their end callbacks run one after the other, in an order that may depend on the rank. If each
// waited, rank 0 could wait for the first instance and rank 1 for the second, each for a launch of
// the other. So the end callback only launches, and the waiting one is queued behind all of them.
//
// If the pass threw, the caller receives that exception.
void Reducer::finish_pass(bool thrown) {
  try {
    until_communication_fails([&] { finish(); });
  } catch (const std::exception&) {
    if (!thrown) throw;
  }
}

void Reducer::finish() {
  pass_->wait_for_sums();
  if (pass_->buckets().flag_comes_late()) {
    if (!pass_->validation_error().empty()) {
      pass_->take_part();
      end_with_validation_error();
    }
    late_flags_.follow(pass_->buckets().flag(), forward_count_);
  } else if (!pass_->buckets().flag_is_well()) {
    const auto reports = pass_->exchange_reports();
    left_out_.clear();
    if (!all_left_out_one_forward(reports)) {
      last_error_ = unfinished_sentence(reports, options_);
      throw UnfinishedReductionError(last_error_);
    }
  }
  const PassBuckets::Written written = pass_->write_back();
  buckets_reduced_ = written.buckets_reduced;
  unused_bytes_ = written.unused_bytes;
  ++model_->pass_count;
  times_.buckets_are_back();
  const bool is_late = pass_->buckets().flag_comes_late(), is_shadow = pass_->is_shadow();
  end_pass();
  if (written.first_error) std::rethrow_exception(written.first_error);
  if (is_shadow || !act_after_pass_) return;
  if (is_late) read_late_flags(/*lag=*/0);
  if (failure_) throw UnfinishedReductionError(*failure_);
  act_after_pass_();
}

// On a device: an error that only this rank knows.
void Reducer::end_with_validation_error() {
  const std::string validation_error = pass_->validation_error();  // give_up() drops the pass
  give_up("rank " + std::to_string(communicator_->rank()) +
          ": a backward pass could not be averaged: " + validation_error);
  throw UnfinishedReductionError(*failure_ + "; update_process_group() begins anew on all ranks");
}

void Reducer::end_pass() {
  pass_->settle();
  drop_pass();
}

void Reducer::drop_pass() {
  if (pass_ && pass_->is_reduced() && !pass_->is_shadow()) model_->arrivals = pass_->arrivals();
  pass_.reset();
}

void Reducer::shadow(int divisor, bool writes) {
  const at::NoGradGuard no_grad;
  const std::lock_guard lock(mutex_);
  forwards_.clear_outstanding();
  model_->usage.pass_is_reduced();
  pass_ = std::make_shared<BackwardPass>(context());
  try {
    until_communication_fails([&] {
      pass_->shadow(divisor, writes, forward_count_);
      finish();
    });
  } catch (const UnfinishedReductionError&) {
    // The ranks that have inputs receive the error, and continue or report it.
  }
}

// Nothing is issued after a failure: it would match an earlier collective of a peer. A device
// failure is local to this rank, so it is reported to the peers.
void Reducer::until_communication_fails(const std::function<void()>& act) {
  try {
    act();
  } catch (const CommunicationError& error) {
    give_up(error.what());
    throw;
  } catch (const c10::AcceleratorError& error) {
    give_up(first_line(error));
    communicator_->report("rank " + std::to_string(communicator_->rank()) +
                          ": its device failed: " + *failure_);
    communicator_->abort_device_backends();
    throw;
  } catch (const std::exception&) {
    if (pass_ && pass_->is_reduced()) end_pass();
    throw;
  }
}

void Reducer::give_up(const std::string& why) {
  failure_ = last_error_ = why;
  drop_pass();
}

void Reducer::check_finished(std::size_t lag) {
  std::unique_lock lock(mutex_);
  let_passes_end(lock);
  if (!failure_) read_late_flags(lag);
  const std::string rank = "rank " + std::to_string(communicator_->rank()) + ": ";
  if (failure_) {
    throw UnfinishedReductionError(rank + "an earlier reduction failed (" + *failure_ +
                                   "); update_process_group() begins anew on ranks that live");
  }
  if (pass_ && pass_->is_reduced()) {
    throw UnfinishedReductionError(
        rank + "the backward pass before this is not over: it waits for the gradients of " +
        model_->parameters.names_of(pass_->buckets().missing()));
  }
}

// Note [Flags of a device].
void Reducer::read_late_flags(std::size_t lag) {
  until_communication_fails([&] {
    communicator_->look_until([&] { return late_flags_.have_come(lag); });
    if (lag == 0) communicator_->wait_for_what_is_under_way();
  });
  for (const auto& [flag, number] : late_flags_.arrived()) {
    if (FlagForm(flag.scalar_type(), communicator_->world_size()).is_well(flag)) continue;
    // A rank that failed has said so before any rank could read the flag.
    const std::string mine = forwards_text(number);
    const auto peer_error = communicator_->peer_error();
    if (!peer_error) communicator_->report("its backward pass comes after " + mine);
    give_up(
        "an earlier backward pass could not be averaged on all ranks, and what gradients held "
        "after it is of no use: " +
        peer_error.value_or("ranks are in different steps") + "; this rank's came after " + mine);
    late_flags_.forget();
    return;
  }
}

void Reducer::let_passes_end(std::unique_lock<std::mutex>& lock) {
  if (is_on_a_thread_of_a_pass()) return;
  ends_have_come_.wait_for(lock, communicator_->timeout(),
                           [&] { return *pending_end_callbacks_ == 0; });
}

void Reducer::let_passes_end() {
  std::unique_lock lock(mutex_);
  let_passes_end(lock);
}

}  // namespace lockstep
