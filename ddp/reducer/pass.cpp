// One backward pass, as the reducer hears of it: which pass it is, and what arrives; or a pass of
// others.
#include "ddp/agreement.h"
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
  if (synchronised) {
    until_communication_fails([&] { open_pass(); });
  } else {
    pass_ = Pass::local;
  }
}

void Reducer::on_gradient(std::size_t index) {
  if (parameters_[index].grad().defined()) used_[index] = true;
  streams_.note(index, shapes_[index].device);
  if (failure_) return;
  if (pass_ == Pass::none) {
    if (!outputs_are_seen_ && !last_forward_wants_it_reduced()) return;
    await_end_of_this_pass();
    pass_ = Pass::undecided;
    if (!outputs_are_seen_) until_communication_fails([&] { open_pass(); });
  }
  if (pass_ == Pass::reduced) {
    until_communication_fails([&] { arrive(index); });
  } else {
    undecided_.push_back(index);
  }
}

bool Reducer::last_forward_wants_it_reduced() const {
  return has_outstanding_forward_ || last_forward_was_synchronised_;
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
      complaint_ =
          whose(index) +
          "came in a local pass and not in the first one, though static_graph promises that "
          "the graph never changes";
    }
    pack(index, Standing::unused);
  }
  for (const std::size_t index : std::exchange(undecided_, {})) arrive(index);
}

bool Reducer::is_known_to_be_unused(std::size_t index) const {
  if (options_.static_graph) return static_graph_.is_frozen() && static_graph_.is_unused(index);
  return options_.find_unused_parameters && unused_[index];
}

// Whether it takes part for what an earlier, local pass put into .grad.
bool Reducer::holds_what_was_used(std::size_t index) const {
  return used_[index] && parameters_[index].grad().defined();
}

// A bucket stays at home if all ranks know that nobody uses a parameter of it: of a static graph by
// the sum over ranks in the first pass, otherwise if all have found the same in forward.
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
    // What the others leave out is not known here: they send everything.
    if (is_standing_in_) text = "no inputs";
    at::Tensor digest = at::empty({1}, at::kLong);
    *digest.data_ptr<std::int64_t>() = std::bit_cast<std::int64_t>(fingerprint(text));
    if (!is_equal_on_all_ranks(*communicator_, digest, "comparison of unused parameters")) return;
  }
  // The last one carries the flag.
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
  std::string objection = objection_to(index);
  bool is_complete = true;
  if (objection.empty() && options_.static_graph) {
    const auto arrival = static_graph_.arrive(index);
    is_complete = arrival == StaticGraph::Arrival::complete;
    if (arrival == StaticGraph::Arrival::unexpected) {
      objection = whose(index) +
                  "came more often than in the first pass, though static_graph promises that the "
                  "graph never changes";
    }
  }
  if (!objection.empty()) {
    if (complaint_.empty()) complaint_ = std::move(objection);
    return;
  }
  arrivals_.push_back(index);
  if (is_complete) pack(index, Standing::arrived);
}

std::string Reducer::objection_to(std::size_t index) const {
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

void Reducer::pack(std::size_t index, Standing standing) {
  const auto [load, slot] = layout_->places[index];
  auto* const bucket = std::get_if<Bucket>(&layout_->loads[load]);
  if (layout_->launcher.is_skipped(load)) {
    // Nothing to do but to count.
  } else if (bucket == nullptr) {
    streams_.meet(index, parameters_[index].grad());
    auto& sum = std::get<SparseSum>(layout_->loads[load]);
    sum.pack(standing == Standing::missing ? at::Tensor() : parameters_[index].grad(), divisor_);
  } else if (standing == Standing::missing) {
    bucket->pack_zeros(slot);
  } else {
    streams_.meet(index, parameters_[index].grad());
    if (standing == Standing::unused) bucket->keep(slot, parameters_[index]);
    bucket->pack(slot, parameters_[index], divisor_);
  }
  const auto complete = layout_->readiness.mark_ready(index);
  if (!complete) return;
  if (bucket != nullptr && !layout_->launcher.is_skipped(load)) {
    if (options_.bucket.batched_copy) {
      for (const std::size_t each : bucket->gradients()) {
        streams_.meet(each, parameters_[each].grad());
      }
    }
    bucket->complete(parameters_, divisor_);
  }
  layout_->launcher.bucket_ready(*complete, layout_->loads, *communicator_);
  if (layout_->launcher.has_launched()) times_.first_bucket_leaves();
}

void Reducer::stand_in(int divisor) {
  const at::NoGradGuard no_grad;
  const std::lock_guard lock(mutex_);
  is_standing_in_ = true;
  try {
    until_communication_fails([&] {
      pass_ = Pass::reduced;
      divisor_ = divisor;
      if (options_.skip_unused_buckets) skip_unused_buckets();
      for (std::size_t index = 0; index < parameters_.size(); ++index) {
        pack(index, Standing::missing);
      }
      layout_->launcher.release_last(layout_->loads, *communicator_);
      finish();
    });
  } catch (const UnfinishedReductionError&) {
    // Those who have inputs are told, and go on or tell why not.
  } catch (const std::exception&) {
    is_standing_in_ = false;
    throw;
  }
  is_standing_in_ = false;
}

}  // namespace lockstep
