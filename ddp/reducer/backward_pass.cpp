#include "ddp/reducer/backward_pass.h"

#include "ddp/consistency/agreement.h"
#include "ddp/reducer/unfinished.h"

#include <torch/torch.h>

#include <algorithm>
#include <bit>
#include <cstdint>

namespace lockstep {

BackwardPass::BackwardPass(const Context& context)
    : on_(context), streams_(context.model.parameters.count()) {}

void BackwardPass::reduce(const std::function<int()>& divisor) {
  on_.times.backward_begins();
  open_buckets(divisor ? divisor() : on_.communicator.world_size());
  for (std::size_t index = 0; index < on_.model.parameters.count(); ++index) {
    if (!is_known_to_be_unused(index)) continue;
    const bool is_of_this_pass =
        std::find(arrivals_.begin(), arrivals_.end(), index) != arrivals_.end();
    if (on_.options.static_graph && holds_what_was_used(index) && !is_of_this_pass) {
      note_error(whose(index) +
                 "came in a local pass and not in the first one, though static_graph promises that "
                 "the graph never changes");
    }
    pack(index, GradientArrival::unused);
  }
  for (const std::size_t index : std::exchange(arrivals_, {})) arrive(index);
}

void BackwardPass::open_buckets(int divisor) {
  if (on_.options.static_graph) counts_.emplace(on_.model.static_graph);
  buckets_.emplace(on_.model.layout, on_.model.parameters, on_.options.bucket, on_.communicator,
                   streams_, on_.options.hook.get(), divisor,
                   /*is_first_pass=*/on_.model.pass_count == 0);
  if (on_.options.skip_unused_buckets) skip_unused_buckets();
}

void BackwardPass::shadow(int divisor, bool writes, std::int64_t number) {
  is_shadow_ = true;
  number_ = number;
  writes_ = writes;
  open_buckets(divisor);
  for (std::size_t index = 0; index < on_.model.parameters.count(); ++index) {
    pack(index, GradientArrival::missing);
  }
  buckets_->release_last({.is_raised = false, .number = number_});
  start_sum_of_used();
}

bool BackwardPass::is_known_to_be_unused(std::size_t index) const {
  const StaticGraph& graph = on_.model.static_graph;
  if (on_.options.static_graph) return graph.is_frozen() && graph.is_unused(index);
  return on_.options.find_unused_parameters && on_.model.usage.is_unreached(index);
}

// True if an earlier, local pass put a value into .grad that must be averaged.
bool BackwardPass::holds_what_was_used(std::size_t index) const {
  return on_.model.usage.was_used(index) && on_.model.parameters[index].grad().defined();
}

// True if the first pass of a static graph reaches it: later ones do too, and may bring a gradient
// where this one brought an undefined one.
bool BackwardPass::is_in_the_graph(std::size_t index) const {
  return is_learning() && counts_->has_arrived(index);
}

// A bucket is skipped if all ranks know that no rank uses a parameter of it: in a static graph by
// the sum over ranks in the first pass, otherwise if all ranks found the same in forward.
void BackwardPass::skip_unused_buckets() {
  std::vector<bool> nobody_uses(on_.model.parameters.count(), false);
  if (on_.options.static_graph) {
    nobody_uses = on_.model.static_graph.used_somewhere();
    nobody_uses.flip();
  } else {
    std::string text;
    for (std::size_t i = 0; i < nobody_uses.size(); ++i) {
      nobody_uses[i] = on_.model.usage.is_unreached(i) && !holds_what_was_used(i);
      text += nobody_uses[i] ? '1' : '0';
    }
    // This rank does not know what the others skip, so they send everything.
    if (is_shadow_) text = "no inputs";
    at::Tensor digest = at::empty({1}, at::kLong);
    *digest.data_ptr<std::int64_t>() = std::bit_cast<std::int64_t>(fingerprint(text));
    if (!is_equal_on_all_ranks(on_.communicator, digest, "comparison of unused parameters")) return;
  }
  // The last bucket carries the flag and is never skipped.
  const BucketPlan& plan = on_.model.layout.plan;
  for (std::size_t bucket = 0; bucket + 1 < plan.size(); ++bucket) {
    const auto& gradients = plan[bucket].gradients;
    if (std::all_of(gradients.begin(), gradients.end(),
                    [&](std::size_t index) { return nobody_uses[index]; })) {
      buckets_->skip(bucket);
    }
  }
}

std::string BackwardPass::whose(std::size_t index) const {
  return "the gradient of '" + on_.model.parameters.name(index) + "' ";
}

void BackwardPass::gradient_arrives(std::size_t index) {
  streams_.note(index, on_.model.parameters.device(index));
  if (is_reduced()) {
    arrive(index);
  } else {
    arrivals_.push_back(index);
  }
}

void BackwardPass::arrive(std::size_t index) {
  std::string validation_error = arrival_error(index);
  bool is_complete = true;
  if (validation_error.empty() && counts_) {
    const auto arrival = counts_->arrive(index);
    is_complete = arrival == StaticGraph::Arrival::complete;
    if (arrival == StaticGraph::Arrival::unexpected) {
      validation_error =
          whose(index) +
          "came more often than in the first pass, though static_graph promises that the "
          "graph never changes";
    }
  }
  if (!validation_error.empty()) {
    note_error(validation_error);
    return;
  }
  arrivals_.push_back(index);
  if (is_complete) pack(index, GradientArrival::arrived);
}

std::string BackwardPass::arrival_error(std::size_t index) const {
  if (!on_.options.static_graph && buckets_->is_packed(index)) {
    return whose(index) +
           (is_known_to_be_unused(index)
                ? "came, though no output of forward depends on it (a loss that uses "
                  "the parameter itself?)"
                : "came twice in one backward pass (a parameter used in nested or "
                  "concurrent passes; static_graph allows it)");
  }
  return "";
}

std::string BackwardPass::form_error(std::size_t index) const {
  const at::Tensor& parameter = on_.model.parameters[index];
  const at::Tensor& gradient = parameter.grad();
  if (!gradient.defined()) return "";
  const bool is_sparse = on_.model.parameters.sizes()[index].sparse;
  if ((gradient.layout() == at::kSparse) != is_sparse) {
    return whose(index) +
           (is_sparse ? "is dense, though its Embedding has sparse=true"
                      : "is sparse, though it is no weight of an Embedding with sparse=true");
  }
  if (gradient.scalar_type() != parameter.scalar_type()) {
    return whose(index) + "has dtype " + c10::toString(gradient.scalar_type()) +
           ", expected the parameter's, " + c10::toString(parameter.scalar_type());
  }
  return "";
}

void BackwardPass::note_error(const std::string& error) {
  if (validation_error_.empty()) validation_error_ = error;
}

void BackwardPass::pack(std::size_t index, GradientArrival arrival) {
  if (arrival != GradientArrival::missing) {
    if (const std::string error = form_error(index); !error.empty()) {
      note_error(error);
      arrival = GradientArrival::missing;
    }
  }
  buckets_->pack(index, arrival);
  if (buckets_->has_launched()) on_.times.first_bucket_leaves();
}

void BackwardPass::autograd_threw() {
  has_thrown_ = true;
  validation_error_ = "an exception was thrown in the backward pass";
  buckets_->read_no_more_gradients();
}

void BackwardPass::launch_the_rest(const std::string& error_before, std::int64_t number) {
  number_ = number;
  pack_what_is_left();
  note_error(error_before);
  const bool has_error = !validation_error_.empty();
  // Before any rank can read the flag.
  if (has_error && buckets_->flag_comes_late()) on_.communicator.report(validation_error_);
  buckets_->release_last({.is_raised = has_error, .number = number_});
  start_sum_of_used();
  on_.times.first_bucket_leaves();
}

bool BackwardPass::is_learning() const {
  return on_.options.static_graph && !on_.model.static_graph.is_frozen();
}

void BackwardPass::pack_what_is_left() {
  std::vector<std::size_t> lacked;
  for (const std::size_t index : buckets_->missing()) {
    if (has_thrown_) {
      pack(index, GradientArrival::missing);
    } else if (is_in_the_graph(index)) {
      pack(index, GradientArrival::arrived);
    } else if (is_learning() || on_.options.find_unused_parameters) {
      pack(index, GradientArrival::unused);
    } else {
      lacked.push_back(index);
      pack(index, GradientArrival::missing);
    }
  }
  if (!lacked.empty()) note_error(kLacks + on_.model.parameters.names_of(lacked));
}

// Note [Several instances in one pass]: here, since none may wait before all have launched.
void BackwardPass::start_sum_of_used() {
  if (sum_of_used_ || !(on_.options.find_unused_parameters || is_learning())) return;
  const std::size_t count = on_.model.parameters.count();
  counts_of_users_ = at::zeros({static_cast<std::int64_t>(count)}, at::kInt);
  auto* const words = counts_of_users_.data_ptr<std::int32_t>();
  for (std::size_t i = 0; i < count && !has_thrown_; ++i) {
    words[i] = !is_shadow_ && (holds_what_was_used(i) || is_in_the_graph(i));
  }
  sum_of_used_ =
      on_.communicator.start_sum(counts_of_users_, "all-reduce of the map of used parameters");
}

void BackwardPass::wait_for_sums() {
  buckets_->wait_for_sums();
  used_somewhere_ = on_.model.static_graph.used_somewhere();
  if (!sum_of_used_) return;
  on_.communicator.wait(*sum_of_used_);
  const auto* const words = counts_of_users_.const_data_ptr<std::int32_t>();
  for (std::size_t i = 0; i < used_somewhere_.size(); ++i) used_somewhere_[i] = words[i] > 0;
}

std::vector<PassReport> BackwardPass::exchange_reports() {
  const std::string mine = is_shadow_ ? kNoInputs : validation_error_;
  const auto numbers = on_.communicator.gather(at::full({1}, number_, at::kLong),
                                               "exchange of errors, numbers of steps");
  std::vector<PassReport> reports;
  for (std::string& error : gather_texts(on_.communicator, mine, "exchange of errors")) {
    const auto number = numbers[reports.size()].item<std::int64_t>();
    reports.push_back({.number = number, .error = std::move(error)});
  }
  return reports;
}

PassBuckets::Written BackwardPass::write_back() {
  const PassBuckets::Written written = buckets_->write_back(used_somewhere_, writes_);
  if (is_learning()) on_.model.static_graph.freeze(*counts_, used_somewhere_);
  on_.model.usage.averages_are_written();
  return written;
}

}  // namespace lockstep
