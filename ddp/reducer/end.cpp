// The end of a backward pass: launches the rest, waits, and writes back or reports errors.
#include "ddp/consistency/agreement.h"
#include "ddp/errors.h"
#include "ddp/reducer/reducer.h"

#include <torch/torch.h>

#include <algorithm>
#include <utility>

namespace lockstep {

namespace {

constexpr const char* kNoInputs = "has no inputs left";
constexpr const char* kLeftOut = " threw before this pass";

}  // namespace

// Note [Nested backward passes]
// A checkpointed segment runs a backward pass inside a function of the outer one, and we await the
// end of the pass with the first gradient of a parameter or an output. With an output's that is the
// outer pass. Otherwise it may be the inner one, which ends while the outer one still has gradients
// to deliver; the next gradient awaits the end again.
void Reducer::on_end(bool thrown) {
  end_is_awaited_ = false;
  if (pass_ != Pass::reduced) {
    local_arrivals_.clear();
    pass_ = Pass::none;
    return;
  }
  if (!thrown && is_inside_a_pass() && !layout_->readiness.all_ready() &&
      !came_through_an_output_) {
    return;
  }
  if (thrown && options_.ends_with_an_exception) {
    give_up("an exception was thrown in the backward pass");
    communicator_->report_for_this_forward(*failure_);
    return;
  }
  try {
    if (thrown) validation_error_ = "an exception was thrown in the backward pass";
    launch_the_rest();
  } catch (const std::exception&) {
    if (!thrown) throw;
  }
  if (thrown) {
    finish_pass(true);
    return;
  }
  call_at_end_of_this_pass(&Reducer::finish_pass);
}

// A callback that runs after a restart belongs to a pass that is no longer observed.
void Reducer::call_at_end_of_this_pass(void (Reducer::*act)(bool thrown)) {
  ++ends_to_come_;
  at_end_of_this_pass([self = shared_from_this(), act, life = restart_count_](bool thrown) {
    const std::lock_guard lock(self->mutex_);
    if (self->restart_count_ != life) return;
    if (--self->ends_to_come_ == 0) self->ends_have_come_.notify_all();
    ((*self).*act)(thrown);
  });
}

void Reducer::let_passes_end(std::unique_lock<std::mutex>& lock) {
  if (is_on_a_thread_of_a_pass()) return;
  ends_have_come_.wait_for(lock, communicator_->timeout(), [&] { return ends_to_come_ == 0; });
}

void Reducer::let_passes_end() {
  std::unique_lock lock(mutex_);
  let_passes_end(lock);
}

// Note [Several instances in one pass]
// Their end callbacks run one after the other, in an order that may depend on the rank. If each
// waited, rank 0 could wait for the first instance and rank 1 for the second, each for a launch of
// the other. So the end callback only launches, and the waiting one is queued behind all of them.
//
// If the pass threw, the caller receives that exception.
void Reducer::finish_pass(bool thrown) {
  if (pass_ != Pass::reduced) return;
  try {
    until_communication_fails([&] { finish(); });
  } catch (const std::exception&) {
    if (!thrown) throw;
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
    communicator_->let_go_of_devices();
    throw;
  } catch (const std::exception&) {
    if (pass_ == Pass::reduced) close_pass();
    throw;
  }
}

void Reducer::launch_the_rest() {
  times_.backward_computed();
  until_communication_fails([&] {
    pack_what_is_left();
    if (validation_error_.empty()) validation_error_ = left_out_;
    if (!validation_error_.empty()) {
      // Before any rank can read the flag.
      if (flags_come_late()) communicator_->report(validation_error_);
      std::visit([](auto& last) { last.raise_flag(); }, layout_->payloads.back());
    }
    layout_->launcher.release_last(layout_->payloads, *communicator_);
    times_.first_bucket_leaves();
  });
}

void Reducer::pack_what_is_left() {
  std::vector<std::size_t> lacked;
  for (const std::size_t index : layout_->readiness.missing()) {
    const bool is_learning = options_.static_graph && !static_graph_.is_frozen();
    if (is_learning && !static_graph_.is_unused(index)) {
      pack(index, GradientArrival::arrived);
    } else if (is_learning || options_.find_unused_parameters) {
      pack(index, GradientArrival::unused);
    } else {
      lacked.push_back(index);
      pack(index, GradientArrival::missing);
    }
  }
  if (!lacked.empty() && validation_error_.empty()) validation_error_ = "lacks " + names_of(lacked);
}

bool Reducer::flag_is_raised() {
  return std::visit([](const auto& last) { return last.flag_is_raised(); },
                    layout_->payloads.back());
}

std::vector<bool> Reducer::wait_for_used(Operation& sum, const at::Tensor& counts) const {
  communicator_->wait(sum);
  const auto* const words = counts.const_data_ptr<std::int32_t>();
  std::vector<bool> used(parameters_.size());
  for (std::size_t i = 0; i < used.size(); ++i) used[i] = words[i] > 0;
  return used;
}

void Reducer::finish() {
  const bool asks_who_uses_what =
      options_.find_unused_parameters || (options_.static_graph && !static_graph_.is_frozen());
  std::optional<Operation> sum_of_used;
  at::Tensor counts;
  if (asks_who_uses_what) {
    counts = at::zeros({static_cast<std::int64_t>(used_.size())}, at::kInt);
    auto* const words = counts.data_ptr<std::int32_t>();
    for (std::size_t i = 0; i < used_.size(); ++i) {
      words[i] = !is_shadowing_ && holds_what_was_used(i) ? 1 : 0;
    }
    sum_of_used = communicator_->start_sum(counts, "all-reduce of the map of used parameters");
  }
  layout_->launcher.wait_for_all(*communicator_);
  for (std::size_t payload = 0; payload < layout_->payloads.size(); ++payload) {
    auto* const sum = std::get_if<SparseSum>(&layout_->payloads[payload]);
    if (sum != nullptr && !layout_->launcher.is_skipped(payload))
      sum->wait_for_sizes(*communicator_);
  }
  const std::vector<bool> used_somewhere =
      sum_of_used ? wait_for_used(*sum_of_used, counts) : used_somewhere_;
  if (flags_come_late()) {
    if (!validation_error_.empty()) end_with_validation_error();
    late_flags_.follow(std::get<Bucket>(layout_->payloads.back()).flag());
  } else if (flag_is_raised()) {
    const std::string mine = is_shadowing_ ? kNoInputs : validation_error_;
    const auto validation_errors = gather_texts(*communicator_, mine, "exchange of errors");
    left_out_.clear();
    if (!all_left_out_one_forward(validation_errors)) {
      close_pass();
      report(validation_errors);
    }
  }
  const std::exception_ptr trouble = write_back(used_somewhere);
  if (options_.static_graph && !static_graph_.is_frozen()) {
    static_graph_.freeze();
    used_somewhere_ = used_somewhere;
  }
  ++pass_count_;
  used_.assign(used_.size(), false);
  times_.buckets_are_back();
  close_pass();
  if (trouble) std::rethrow_exception(trouble);
}

// True if the only error is that the same forward threw on all ranks: they skipped it together.
bool Reducer::all_left_out_one_forward(const std::vector<std::string>& validation_errors) {
  std::optional<std::string> first;
  for (const std::string& each : validation_errors) {
    if (each == kNoInputs) continue;
    if (!each.ends_with(kLeftOut) || each != first.value_or(each)) return false;
    first = each;
  }
  return true;
}

std::exception_ptr Reducer::write_back(const std::vector<bool>& used_somewhere) {
  buckets_reduced_ = unused_bytes_ = 0;
  std::exception_ptr
      first_error;  // one parameter's error does not keep the others from being averaged
  for (std::size_t payload = 0; payload < layout_->payloads.size(); ++payload) {
    const std::vector<std::size_t>& gradients = layout_->plan[payload].gradients;
    for (const std::size_t index : gradients) {
      if (!used_somewhere[index]) unused_bytes_ += sizes_[index].bytes();
    }
    if (layout_->launcher.is_skipped(payload)) continue;
    ++buckets_reduced_;
    auto* const bucket = std::get_if<Bucket>(&layout_->payloads[payload]);
    if (bucket == nullptr) {
      const at::Tensor average =
          std::get<SparseSum>(layout_->payloads[payload]).finish(*communicator_);
      if (!is_shadowing_ && average.defined() && used_somewhere[gradients.front()]) {
        parameters_[gradients.front()].mutable_grad() = average;
      }
      continue;
    }
    bucket->enter();
    if (is_shadowing_) continue;
    for (std::size_t slot = 0; slot < gradients.size(); ++slot) {
      const std::size_t index = gradients[slot];
      if (!used_somewhere[index]) {
        bucket->restore(slot, parameters_[index]);
        continue;
      }
      try {
        streams_.wait_for_producer_stream(index, parameters_[index].grad());
        bucket->unpack(slot, parameters_[index]);
      } catch (const UsageError&) {
        if (!first_error) first_error = std::current_exception();
      }
    }
  }
  return first_error;
}

void Reducer::close_pass() {
  layout_->readiness.reset();
  layout_->launcher.reset();
  std::visit([](auto& last) { last.lower_flag(); }, layout_->payloads.back());
  pass_ = Pass::none;
  came_through_an_output_ = has_outstanding_forward_ = last_forward_decides_ = false;
  validation_error_.clear();
  reached_locally_.assign(reached_locally_.size(), false);
  for (BucketPayload& payload : layout_->payloads) {
    auto* const bucket = std::get_if<Bucket>(&payload);
    if (bucket == nullptr) continue;
    bucket->forget_kept();
    bucket->settle();
  }
}

void Reducer::give_up(const std::string& why) {
  failure_ = last_error_ = why;
  pass_ = Pass::none;
  came_through_an_output_ = false;
}

void Reducer::report(const std::vector<std::string>& validation_errors) {
  std::string sentence =
      "a backward pass could not be averaged on all ranks, so each keeps its local gradients: ";
  if (options_.bucket.gradients_are_views) {
    sentence =
        "a backward pass could not be averaged on all ranks, and what gradients hold is of no use "
        "(gradient_as_bucket_view): ";
  }
  for (std::size_t rank = 0; rank < validation_errors.size(); ++rank) {
    if (rank > 0) sentence += "; ";
    sentence += "rank " + std::to_string(rank) + ": " +
                (validation_errors[rank].empty() ? "all is well" : validation_errors[rank]);
  }
  const bool lacks =
      std::any_of(validation_errors.begin(), validation_errors.end(),
                  [](const std::string& each) { return each.starts_with("lacks "); });
  if (lacks && options_.static_graph) {
    sentence += ". static_graph promises that every pass uses what the first one did";
  } else if (lacks) {
    sentence +=
        ". Every parameter that requires a gradient must take part in the loss on every rank, or "
        "find_unused_parameters be set. If a second backward() of the same forward was to bring "
        "the "
        "rest: add the losses, and call backward() once on the sum";
  }
  last_error_ = sentence;
  throw UnfinishedReductionError(sentence);
}

}  // namespace lockstep
