// One backward pass as the reducer observes it: its kind, and the gradients that arrive; or a pass
// that it shadows.
#include "ddp/consistency/agreement.h"
#include "ddp/errors.h"
#include "ddp/reducer/reducer.h"

#include <torch/torch.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <utility>

namespace lockstep {

void Reducer::on_output_gradient(bool synchronised) {
  if (pass_ == Pass::reduced || failure_ || !hooks_ || !hooks_->may_be_reached_by_this_pass()) {
    return;
  }
  await_end_of_this_pass();
  pass_ = Pass::local;
  if (!synchronised) return;
  came_through_an_output_ = true;
  until_communication_fails([&] { open_pass(); });
}

void Reducer::on_gradient(std::size_t index) {
  if (parameters_[index].grad().defined()) used_[index] = true;
  streams_.note(index, shapes_[index].device);
  if (failure_) return;
  if (pass_ == Pass::none) {
    await_end_of_this_pass();
    pass_ = Pass::local;
    if (is_of_a_synchronised_forward()) until_communication_fails([&] { open_pass(); });
  }
  if (pass_ == Pass::reduced) {
    until_communication_fails([&] { arrive(index); });
  } else {
    local_arrivals_.push_back(index);
  }
}

// For a pass that has come through no output.
bool Reducer::is_of_a_synchronised_forward() const {
  return last_forward_decides_ || this_pass_runs_any_of(synchronised_forwards_);
}

void Reducer::await_end_of_this_pass() {
  if (end_is_awaited_) return;
  end_is_awaited_ = true;
  call_at_end_of_this_pass(&Reducer::on_end);
}

void Reducer::open_pass() {
  pass_ = Pass::reduced;
  times_.backward_begins();
  arrivals_.clear();
  static_graph_.begin_pass();
  divisor_ = ask_divisor_ ? ask_divisor_() : communicator_->world_size();
  if (options_.skip_unused_buckets) skip_unused_buckets();
  for (std::size_t index = 0; index < parameters_.size(); ++index) {
    if (!is_known_to_be_unused(index)) continue;
    if (options_.static_graph && holds_what_was_used(index)) {
      validation_error_ =
          whose(index) +
          "came in a local pass and not in the first one, though static_graph promises that "
          "the graph never changes";
    }
    pack(index, GradientArrival::unused);
  }
  for (const std::size_t index : std::exchange(local_arrivals_, {})) arrive(index);
}

bool Reducer::is_known_to_be_unused(std::size_t index) const {
  if (options_.static_graph) return static_graph_.is_frozen() && static_graph_.is_unused(index);
  return options_.find_unused_parameters && unused_[index];
}

// Whether an earlier, local pass put a value into .grad that must be averaged.
bool Reducer::holds_what_was_used(std::size_t index) const {
  return used_[index] && parameters_[index].grad().defined();
}

// A bucket is skipped if all ranks know that no rank uses a parameter of it: in a static graph by
// the sum over ranks in the first pass, otherwise if all ranks found the same in forward.
void Reducer::skip_unused_buckets() {
  std::vector<bool> nobody_uses(parameters_.size(), false);
  if (options_.static_graph) {
    for (std::size_t i = 0; i < nobody_uses.size(); ++i) nobody_uses[i] = !used_somewhere_[i];
  } else {
    std::string text;
    for (std::size_t i = 0; i < unused_.size(); ++i) {
      nobody_uses[i] = unused_[i] && !holds_what_was_used(i);
      text += nobody_uses[i] ? '1' : '0';
    }
    // This rank does not know what the others skip, so they send everything.
    if (is_shadowing_) text = "no inputs";
    at::Tensor digest = at::empty({1}, at::kLong);
    *digest.data_ptr<std::int64_t>() = std::bit_cast<std::int64_t>(fingerprint(text));
    if (!is_equal_on_all_ranks(*communicator_, digest, "comparison of unused parameters")) return;
  }
  // The last bucket carries the flag and is never skipped.
  for (std::size_t bucket = 0; bucket + 1 < layout_->plan.size(); ++bucket) {
    const auto& gradients = layout_->plan[bucket].gradients;
    if (std::all_of(gradients.begin(), gradients.end(),
                    [&](std::size_t index) { return nobody_uses[index]; })) {
      layout_->launcher.skip(bucket);
    }
  }
}

std::string Reducer::whose(std::size_t index) const {
  return "the gradient of '" + names_[index] + "' ";
}

void Reducer::arrive(std::size_t index) {
  await_end_of_this_pass();
  std::string validation_error = arrival_error(index);
  bool is_complete = true;
  if (validation_error.empty() && options_.static_graph) {
    const auto arrival = static_graph_.arrive(index);
    is_complete = arrival == StaticGraph::Arrival::complete;
    if (arrival == StaticGraph::Arrival::unexpected) {
      validation_error =
          whose(index) +
          "came more often than in the first pass, though static_graph promises that the "
          "graph never changes";
    }
  }
  if (!validation_error.empty()) {
    if (validation_error_.empty()) validation_error_ = std::move(validation_error);
    return;
  }
  arrivals_.push_back(index);
  if (is_complete) pack(index, GradientArrival::arrived);
}

std::string Reducer::arrival_error(std::size_t index) const {
  if (!options_.static_graph && layout_->readiness.is_ready(index)) {
    return whose(index) +
           (is_known_to_be_unused(index)
                ? "came, though no output of forward depends on it (a loss that uses "
                  "the parameter itself?)"
                : "came twice in one backward pass (a parameter used in nested or "
                  "concurrent passes; static_graph allows it)");
  }
  const at::Tensor& gradient = parameters_[index].grad();
  if (!gradient.defined()) return "";
  if ((gradient.layout() == at::kSparse) != sizes_[index].sparse) {
    return whose(index) +
           (sizes_[index].sparse
                ? "is dense, though its Embedding has sparse=true"
                : "is sparse, though it is no weight of an Embedding with sparse=true");
  }
  if (gradient.scalar_type() != parameters_[index].scalar_type()) {
    return whose(index) + "has dtype " + c10::toString(gradient.scalar_type()) +
           ", expected the parameter's, " + c10::toString(parameters_[index].scalar_type());
  }
  return "";
}

void Reducer::pack(std::size_t index, GradientArrival arrival) {
  const auto [payload, slot] = layout_->places[index];
  auto* const bucket = std::get_if<Bucket>(&layout_->payloads[payload]);
  if (layout_->launcher.is_skipped(payload)) {
    // Nothing to do but to count.
  } else if (bucket == nullptr) {
    streams_.wait_for_producer_stream(index, parameters_[index].grad());
    auto& sum = std::get<SparseSum>(layout_->payloads[payload]);
    sum.pack(arrival == GradientArrival::missing ? at::Tensor() : parameters_[index].grad(),
             divisor_);
  } else if (arrival == GradientArrival::missing) {
    bucket->pack_zeros(slot);
  } else {
    streams_.wait_for_producer_stream(index, parameters_[index].grad());
    if (arrival == GradientArrival::unused) bucket->keep(slot, parameters_[index]);
    bucket->pack(slot, parameters_[index], divisor_);
  }
  const auto complete = layout_->readiness.mark_ready(index);
  if (!complete) return;
  if (bucket != nullptr && !layout_->launcher.is_skipped(payload)) {
    if (options_.bucket.batched_copy) {
      for (const std::size_t each : bucket->gradients()) {
        streams_.wait_for_producer_stream(each, parameters_[each].grad());
      }
    }
    bucket->complete(parameters_, divisor_);
  }
  layout_->launcher.bucket_ready(*complete, layout_->payloads, *communicator_);
  if (layout_->launcher.has_launched()) times_.first_bucket_leaves();
}

void Reducer::shadow(int divisor) {
  const at::NoGradGuard no_grad;
  const std::lock_guard lock(mutex_);
  is_shadowing_ = true;
  try {
    until_communication_fails([&] {
      pass_ = Pass::reduced;
      divisor_ = divisor;
      if (options_.skip_unused_buckets) skip_unused_buckets();
      for (std::size_t index = 0; index < parameters_.size(); ++index) {
        pack(index, GradientArrival::missing);
      }
      layout_->launcher.release_last(layout_->payloads, *communicator_);
      finish();
    });
  } catch (const UnfinishedReductionError&) {
    // The ranks that have inputs receive the error, and continue or report it.
  } catch (const std::exception&) {
    is_shadowing_ = false;
    throw;
  }
  is_shadowing_ = false;
}

}  // namespace lockstep
