// The end of a backward pass: what is launched late, waited for and written back, or reported.
#include "ddp/agreement.h"
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
// A checkpointed segment runs a backward pass inside a function of the outer one, and the end that
// is awaited is that of the pass in which a gradient, or an output's, came first. Where outputs are
// seen that is the outer one. Otherwise it may be the inner one, which ends while the outer one
// still has gradients to deliver; a function of it is being evaluated then, and the next gradient
// awaits the end again.
void Reducer::on_end(bool thrown) {
  end_is_awaited_ = false;
  if (pass_ == Pass::undecided && !thrown && last_forward_wants_it_reduced()) {
    end_is_awaited_ = true;  // this is it
    until_communication_fails([&] { open_pass(); });
    end_is_awaited_ = false;
  }
  if (pass_ != Pass::reduced) {
    undecided_.clear();
    pass_ = Pass::none;
    return;
  }
  if (!thrown && is_inside_a_pass() && !layout_->readiness.all_ready() && !outputs_are_seen_) {
    return;
  }
  if (thrown && options_.ends_with_an_exception) {
    give_up("an exception was thrown in the backward pass");
    communicator_->tell_of_this_forward(*failure_);
    return;
  }
  try {
    if (thrown) complaint_ = "an exception was thrown in the backward pass";
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

// What is called after a restart belongs to a pass that is nobody's any more.
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
// Their ends come one after the other, in an order that may depend on the rank. If each waited in
// its end, rank 0 could wait for the first instance and rank 1 for the second, both for what the
// other launches later. So the end launches, and what waits is queued behind all ends.
//
// Where an exception is on its way to the caller already, it is the one that is seen.
void Reducer::finish_pass(bool thrown) {
  if (pass_ != Pass::reduced) return;
  try {
    until_communication_fails([&] { finish(); });
  } catch (const std::exception&) {
    if (!thrown) throw;
  }
}

// Nothing is issued after a failure: it would meet what peers issued earlier. A device that fails
// is this rank's alone, of which no peer would hear by itself.
void Reducer::until_communication_fails(const std::function<void()>& act) {
  try {
    act();
  } catch (const CommunicationError& error) {
    give_up(error.what());
    throw;
  } catch (const c10::AcceleratorError& error) {
    give_up(first_line(error));
    communicator_->tell("rank " + std::to_string(communicator_->rank()) +
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
    if (complaint_.empty()) complaint_ = left_out_;
    if (!complaint_.empty()) {
      // Before anybody can find the flag.
      if (flags_come_late()) communicator_->tell(complaint_);
      std::visit([](auto& last) { last.raise_flag(); }, layout_->loads.back());
    }
    layout_->launcher.release_last(layout_->loads, *communicator_);
    times_.first_bucket_leaves();
  });
}

void Reducer::pack_what_is_left() {
  std::vector<std::size_t> lacked;
  for (const std::size_t index : layout_->readiness.missing()) {
    const bool is_learning = options_.static_graph && !static_graph_.is_frozen();
    if (is_learning && !static_graph_.is_unused(index)) {
      pack(index, Standing::arrived);
    } else if (is_learning || options_.find_unused_parameters) {
      pack(index, Standing::unused);
    } else {
      lacked.push_back(index);
      pack(index, Standing::missing);
    }
  }
  if (!lacked.empty() && complaint_.empty()) complaint_ = "lacks " + names_of(lacked);
}

bool Reducer::flag_is_raised() {
  return std::visit([](const auto& last) { return last.flag_is_raised(); }, layout_->loads.back());
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
      words[i] = !is_standing_in_ && holds_what_was_used(i) ? 1 : 0;
    }
    sum_of_used = communicator_->start_sum(counts, "all-reduce of the map of used parameters");
  }
  layout_->launcher.wait_for_all(*communicator_);
  for (std::size_t load = 0; load < layout_->loads.size(); ++load) {
    auto* const sum = std::get_if<SparseSum>(&layout_->loads[load]);
    if (sum != nullptr && !layout_->launcher.is_skipped(load)) sum->wait_for_sizes(*communicator_);
  }
  const std::vector<bool> used_somewhere =
      sum_of_used ? wait_for_used(*sum_of_used, counts) : used_somewhere_;
  if (flags_come_late()) {
    if (!complaint_.empty()) end_with_complaint();
    late_flags_.follow(std::get<Bucket>(layout_->loads.back()).flag());
  } else if (flag_is_raised()) {
    const std::string mine = is_standing_in_ ? kNoInputs : complaint_;
    const auto complaints = gather_texts(*communicator_, mine, "exchange of complaints");
    left_out_.clear();
    if (!all_left_out_one_forward(complaints)) {
      close_pass();
      report(complaints);
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

// Where the same forward threw on all ranks, and that is all, they have left it out together.
bool Reducer::all_left_out_one_forward(const std::vector<std::string>& complaints) {
  std::optional<std::string> first;
  for (const std::string& each : complaints) {
    if (each == kNoInputs) continue;
    if (!each.ends_with(kLeftOut) || each != first.value_or(each)) return false;
    first = each;
  }
  return true;
}

std::exception_ptr Reducer::write_back(const std::vector<bool>& used_somewhere) {
  buckets_reduced_ = unused_bytes_ = 0;
  std::exception_ptr first_error;  // a parameter's trouble does not cost the others their average
  for (std::size_t load = 0; load < layout_->loads.size(); ++load) {
    const std::vector<std::size_t>& gradients = layout_->plan[load].gradients;
    for (const std::size_t index : gradients) {
      if (!used_somewhere[index]) unused_bytes_ += sizes_[index].bytes();
    }
    if (layout_->launcher.is_skipped(load)) continue;
    ++buckets_reduced_;
    auto* const bucket = std::get_if<Bucket>(&layout_->loads[load]);
    if (bucket == nullptr) {
      const at::Tensor average = std::get<SparseSum>(layout_->loads[load]).finish(*communicator_);
      if (!is_standing_in_ && average.defined() && used_somewhere[gradients.front()]) {
        parameters_[gradients.front()].mutable_grad() = average;
      }
      continue;
    }
    bucket->enter();
    if (is_standing_in_) continue;
    for (std::size_t slot = 0; slot < gradients.size(); ++slot) {
      const std::size_t index = gradients[slot];
      if (!used_somewhere[index]) {
        bucket->restore(slot, parameters_[index]);
        continue;
      }
      try {
        streams_.meet(index, parameters_[index].grad());
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
  std::visit([](auto& last) { last.lower_flag(); }, layout_->loads.back());
  pass_ = Pass::none;
  has_outstanding_forward_ = false;
  complaint_.clear();
  reached_locally_.assign(reached_locally_.size(), false);
  for (Load& load : layout_->loads) {
    auto* const bucket = std::get_if<Bucket>(&load);
    if (bucket == nullptr) continue;
    bucket->forget_kept();
    bucket->settle();
  }
}

void Reducer::give_up(const std::string& why) {
  failure_ = last_error_ = why;
  pass_ = Pass::none;
}

void Reducer::report(const std::vector<std::string>& complaints) {
  std::string sentence =
      "a backward pass could not be averaged on all ranks, so each keeps its local gradients: ";
  if (options_.bucket.gradients_are_views) {
    sentence =
        "a backward pass could not be averaged on all ranks, and what gradients hold is of no use "
        "(gradient_as_bucket_view): ";
  }
  for (std::size_t rank = 0; rank < complaints.size(); ++rank) {
    if (rank > 0) sentence += "; ";
    sentence += "rank " + std::to_string(rank) + ": " +
                (complaints[rank].empty() ? "all is well" : complaints[rank]);
  }
  const bool lacks = std::any_of(complaints.begin(), complaints.end(), [](const std::string& each) {
    return each.starts_with("lacks ");
  });
  if (lacks && options_.static_graph) {
    sentence += ". static_graph promises that every pass uses what the first one did";
  } else if (lacks) {
    sentence +=
        ". Every parameter that requires a gradient must take part in the loss on every rank, or "
        "find_unused_parameters be set";
  }
  last_error_ = sentence;
  throw UnfinishedReductionError(sentence);
}

}  // namespace lockstep
