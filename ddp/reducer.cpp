#include "ddp/reducer.h"

#include "ddp/agreement.h"
#include "ddp/errors.h"

#include <torch/csrc/autograd/engine.h>
#include <torch/torch.h>

#include <algorithm>
#include <utility>

namespace lockstep {

namespace {

GradientSize size_of(const at::Tensor& parameter) {
  return {.element_count = parameter.numel(),
          .element_bytes = parameter.element_size(),
          .kind = static_cast<int>(parameter.scalar_type())};
}

std::string text_of(const BucketPlan& plan) {
  std::string text;
  for (const PlannedBucket& bucket : plan) {
    text += '[';
    for (const std::size_t index : bucket.gradients) text += ' ' + std::to_string(index);
    text += " ]";
  }
  return text;
}

}  // namespace

Reducer::Layout::Layout(BucketPlan wanted, const std::vector<at::Tensor>& parameters)
    : plan(std::move(wanted)), places(parameters.size()), readiness(plan), launcher(plan.size()) {
  for (std::size_t bucket = 0; bucket < plan.size(); ++bucket) {
    buckets.emplace_back(plan[bucket], parameters);
    for (std::size_t slot = 0; slot < plan[bucket].gradients.size(); ++slot) {
      places[plan[bucket].gradients[slot]] = {bucket, slot};
    }
  }
}

std::shared_ptr<Reducer> Reducer::create(std::shared_ptr<Communicator> communicator,
                                         std::vector<NamedTensor> trainable,
                                         std::vector<NamedTensor> frozen,
                                         std::vector<std::int64_t> bytes_caps) {
  return std::shared_ptr<Reducer>(new Reducer(std::move(communicator), std::move(trainable),
                                              std::move(frozen), std::move(bytes_caps)));
}

Reducer::Reducer(std::shared_ptr<Communicator> communicator, std::vector<NamedTensor> trainable,
                 std::vector<NamedTensor> frozen, std::vector<std::int64_t> bytes_caps)
    : communicator_(std::move(communicator)),
      frozen_(std::move(frozen)),
      bytes_caps_(std::move(bytes_caps)) {
  for (NamedTensor& each : trainable) {
    sizes_.push_back(size_of(each.tensor));
    parameters_.push_back(std::move(each.tensor));
    names_.push_back(std::move(each.name));
  }
  layout_ = std::make_unique<Layout>(first_plan(sizes_), parameters_);
  hooks_ = std::make_unique<GradientHooks>(parameters_,
                                           [this](std::size_t index) { on_gradient(index); });
}

void Reducer::check_finished() {
  const std::lock_guard lock(mutex_);
  if (!in_backward_) return;
  const bool all_here = layout_->readiness.all_ready();
  throw UnfinishedReductionError(
      "rank " + std::to_string(communicator_->rank()) +
      ": the backward pass before this forward was cut off " +
      (all_here ? "while its buckets were summed"
                : "still waiting for the gradients of " + names_of(layout_->readiness.missing())) +
      "; its peers may be waiting too, so this object cannot be used any more");
}

void Reducer::prepare() {
  const std::lock_guard lock(mutex_);
  check_parameters();
  if (!is_rebuilt_ && arrival_order_.size() == parameters_.size()) rebuild();
}

// Module::to() and set_requires_grad() drop the accumulators that carry our hooks, or make
// gradients that nobody listens for: training would go on, each rank for itself.
void Reducer::check_parameters() const {
  const std::string rank = "rank " + std::to_string(communicator_->rank()) + ": parameter '";
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const at::Tensor& parameter = parameters_[i];
    if (!parameter.requires_grad()) {
      throw UsageError(rank + names_[i] + "' was frozen after it was wrapped; wrap it again");
    }
    if (static_cast<int>(parameter.scalar_type()) != sizes_[i].kind ||
        !hooks_->is_attached(i, parameter)) {
      throw UsageError(rank + names_[i] +
                       "' was converted or moved after it was wrapped; wrap it again");
    }
  }
  for (const NamedTensor& each : frozen_) {
    if (each.tensor.requires_grad()) {
      throw UsageError(rank + each.name + "' was unfrozen after it was wrapped; wrap it again");
    }
  }
}

void Reducer::rebuild() {
  at::Tensor order = at::empty({static_cast<std::int64_t>(parameters_.size())}, at::kLong);
  auto* const words = order.data_ptr<std::int64_t>();
  std::copy(arrival_order_.begin(), arrival_order_.end(), words);
  Operation broadcast =
      communicator_->start_broadcast(order, "broadcast of the order of gradients");
  communicator_->wait(broadcast);
  arrival_order_.assign(words, words + order.numel());

  BucketPlan plan = assign_buckets_in_order(sizes_, bytes_caps_, arrival_order_);
  agree(*communicator_, {.statements = {{"the plan of gradient buckets", text_of(plan)}}});
  layout_ = std::make_unique<Layout>(std::move(plan), parameters_);
  is_rebuilt_ = true;
}

void Reducer::synchronise_backward() {
  const std::lock_guard lock(mutex_);
  has_outstanding_forward_ = true;
  last_forward_was_synchronised_ = true;
}

void Reducer::leave_backward_local() {
  const std::lock_guard lock(mutex_);
  last_forward_was_synchronised_ = false;
}

BucketPlan Reducer::plan() const {
  const std::lock_guard lock(mutex_);
  return layout_->plan;
}

void Reducer::on_gradient(std::size_t index) {
  const std::lock_guard lock(mutex_);
  if (!has_outstanding_forward_ && !last_forward_was_synchronised_) return;
  expect_end_of_backward();
  const at::Tensor& gradient = parameters_[index].grad();
  check_gradient(index, gradient);
  if (!is_rebuilt_ && arrival_order_.size() < parameters_.size()) arrival_order_.push_back(index);
  pack(index, gradient);
}

void Reducer::expect_end_of_backward() {
  in_backward_ = true;
  if (end_is_expected_) return;
  end_is_expected_ = true;
  torch::autograd::Engine::get_default_engine().queue_callback(
      [self = shared_from_this()] { self->on_backward_end(); });
}

void Reducer::check_gradient(std::size_t index, const at::Tensor& gradient) const {
  const std::string subject =
      "rank " + std::to_string(communicator_->rank()) + ": the gradient of '" + names_[index] + "'";
  if (layout_->readiness.is_ready(index)) {
    throw UsageError(subject +
                     " came twice in one backward pass (a parameter used in nested or "
                     "concurrent backward passes)");
  }
  if (!gradient.defined()) return;
  if (gradient.layout() != at::kStrided) {
    throw UsageError(subject + " is sparse, which this version does not average");
  }
  if (gradient.scalar_type() != parameters_[index].scalar_type()) {
    throw UsageError(subject + " has dtype " + c10::toString(gradient.scalar_type()) +
                     ", expected the parameter's, " +
                     c10::toString(parameters_[index].scalar_type()));
  }
}

void Reducer::pack(std::size_t index, const at::Tensor& gradient) {
  const Layout::Place place = layout_->places[index];
  const double scale = 1.0 / communicator_->world_size();
  layout_->buckets[place.bucket].pack(place.slot, gradient, scale);
  const auto complete = layout_->readiness.mark_ready(index);
  if (!complete) return;
  layout_->launcher.bucket_ready(*complete, layout_->buckets, *communicator_);
}

// Note [Nested backward passes]
// A checkpointed segment runs a backward pass inside a node of the outer one, and a callback
// belongs to the pass in which it was queued. If the first gradient comes in the inner pass, this
// runs when the outer one still has gradients to deliver; a node is being evaluated then, and we
// wait for the next gradient to queue the callback again.
void Reducer::on_backward_end() {
  const std::lock_guard lock(mutex_);
  end_is_expected_ = false;
  if (!in_backward_) return;
  const bool is_nested = torch::autograd::get_current_node() != nullptr;
  const std::vector<std::size_t> missing = layout_->readiness.missing();
  if (!missing.empty() && is_nested) return;
  if (!missing.empty()) launch_without(missing);
  finish(missing);
}

void Reducer::launch_without(const std::vector<std::size_t>& missing) {
  layout_->buckets.back().raise_flag();
  for (const std::size_t index : missing) pack(index, at::Tensor());
}

void Reducer::finish(const std::vector<std::size_t>& missing) {
  layout_->launcher.wait_for_all(*communicator_);
  const bool is_unfinished = layout_->buckets.back().flag_is_raised();
  if (is_unfinished) {
    if (!is_rebuilt_) arrival_order_.clear();
  } else {
    for (const Bucket& bucket : layout_->buckets) bucket.unpack(parameters_);
  }
  layout_->readiness.reset();
  layout_->launcher.reset();
  layout_->buckets.back().lower_flag();
  in_backward_ = false;
  has_outstanding_forward_ = false;
  if (is_unfinished) report_unfinished(missing);
}

std::string Reducer::names_of(const std::vector<std::size_t>& indices) const {
  std::string text;
  for (const std::size_t index : indices) {
    if (!text.empty()) text += ", ";
    text += "'" + names_[index] + "'";
  }
  return text.empty() ? "no parameter" : text;
}

void Reducer::report_unfinished(const std::vector<std::size_t>& missing) {
  const auto lists =
      gather_texts(*communicator_, names_of(missing), "exchange of missing gradients");
  std::string sentence =
      "a backward pass ended without a gradient for every parameter, so all ranks keep their local "
      "gradients: ";
  for (std::size_t rank = 0; rank < lists.size(); ++rank) {
    if (rank > 0) sentence += "; ";
    sentence += "rank " + std::to_string(rank) + " lacks " + lists[rank];
  }
  throw UnfinishedReductionError(
      sentence +
      ". Every parameter that requires a gradient must take part in the "
      "loss on every rank (find_unused_parameters is not in this version)");
}

}  // namespace lockstep
