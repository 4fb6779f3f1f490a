#include "ddp/reducer/reducer.h"

#include "ddp/bucket_plan/rebuilt_plan.h"
#include "ddp/errors.h"
#include "ddp/reducer/unfinished.h"

#include <torch/torch.h>

#include <set>
#include <utility>

namespace lockstep {

namespace {

ReducerOptions in_world(ReducerOptions options, const Communicator& communicator) {
  options.bucket.world_size = communicator.world_size();
  return options;
}

std::vector<std::int64_t> sizes_of(const BucketPlan& plan) {
  std::vector<std::int64_t> sizes;
  for (const PlannedBucket& bucket : plan) sizes.push_back(bucket.bytes);
  return sizes;
}

}  // namespace

std::shared_ptr<Reducer> Reducer::create(std::shared_ptr<Communicator> communicator,
                                         std::vector<Parameter> trainable,
                                         std::vector<NamedTensor> frozen, Options options) {
  std::shared_ptr<Reducer> reducer(new Reducer(std::move(communicator), std::move(trainable),
                                               std::move(frozen), std::move(options)));
  reducer->listen();
  return reducer;
}

Reducer::Reducer(std::shared_ptr<Communicator> communicator, std::vector<Parameter> trainable,
                 std::vector<NamedTensor> frozen, Options options)
    : communicator_(std::move(communicator)),
      options_(in_world(std::move(options), *communicator_)),
      model_(std::make_unique<ReducedModel>(Parameters(std::move(trainable), std::move(frozen)),
                                            options_)),
      constructed_plan_(model_->layout.plan) {}

void Reducer::listen() {
  hooks_.reset();
  hooks_ = std::make_unique<GradientHooks>(model_->parameters.tensors(), [this](std::size_t index) {
    const std::lock_guard lock(mutex_);
    on_gradient(index);
  });
}

std::int64_t Reducer::count_forward() {
  const std::lock_guard lock(mutex_);
  return ++forward_count_;
}

std::int64_t Reducer::forward_count() const {
  const std::lock_guard lock(mutex_);
  return forward_count_;
}

void Reducer::prepare() {
  const std::lock_guard lock(mutex_);
  check_parameters();
  const bool may_be_rebuilt = !options_.find_unused_parameters;
  if (!model_->is_rebuilt && model_->pass_count > 0 && may_be_rebuilt) rebuild();
  times_.forward_begins(model_->pass_count);
}

// Module::to() and torch::load() drop the accumulators that carry our hooks: training would
// silently continue without averaging. A parameter that is frozen now cannot be hooked, and is
// reported before the next synchronised forward.
void Reducer::restore_hooks() {
  const std::lock_guard lock(mutex_);
  const Parameters& parameters = model_->parameters;
  if (!hooks_ || parameters.changed_requires_grad()) return;
  for (std::size_t i = 0; i < parameters.count(); ++i) {
    if (hooks_->is_attached(i, parameters[i])) continue;
    listen();
    return;
  }
}

void Reducer::check_parameters() {
  const std::string rank = "rank " + std::to_string(communicator_->rank()) + ": ";
  if (!hooks_) throw UsageError(rank + "remove_autograd_hooks() was called; wrap the module again");
  const Parameters& parameters = model_->parameters;
  if (const auto change = parameters.changed_requires_grad()) throw UsageError(rank + *change);
  if (const auto change = parameters.changed_tensor()) throw UsageError(rank + *change);
}

void Reducer::rebuild() {
  BucketPlan plan = rebuilt_plan(*communicator_, model_->arrivals, model_->parameters.sizes(),
                                 options_.bytes_caps);
  try {
    model_->layout.rebuild(std::move(plan), model_->parameters, options_.bucket);
  } catch (const std::exception& error) {
    give_up(std::string("the buckets could not be made: ") + first_line(error));
    throw;
  }
  model_->is_rebuilt = true;
}

void Reducer::forward_begins() {
  const std::lock_guard lock(mutex_);
  forwards_.forward_begins();
}

void Reducer::watch(const std::optional<std::vector<at::Tensor>>& outputs, bool synchronised) {
  const std::lock_guard lock(mutex_);
  if (options_.find_unused_parameters && hooks_) {
    model_->usage.forward_reaches(hooks_->reachable_from(*outputs), synchronised,
                                  forwards_.are_outstanding());
  }
  forwards_.forward_ends(outputs, synchronised, [reducer = weak_from_this()](bool is_synchronised) {
    const auto self = reducer.lock();
    if (!self) return;
    const std::lock_guard held(self->mutex_);
    self->on_output_gradient(is_synchronised);
  });
}

void Reducer::act_after_each_pass(std::function<void()> act) {
  const std::lock_guard lock(mutex_);
  act_after_pass_ = std::move(act);
}

void Reducer::ask_before_each_pass(std::function<int()> divisor) {
  const std::lock_guard lock(mutex_);
  ask_divisor_ = std::move(divisor);
}

void Reducer::set_hook(std::shared_ptr<CommunicationHook> hook) {
  const std::lock_guard lock(mutex_);
  options_.hook = std::move(hook);
}

std::shared_ptr<CommunicationHook> Reducer::hook() const {
  const std::lock_guard lock(mutex_);
  return options_.hook;
}

void Reducer::leave_out_forward() {
  const std::lock_guard lock(mutex_);
  left_out_ = left_out_forward(forward_count_);
}

void Reducer::forget_left_out_forward() {
  const std::lock_guard lock(mutex_);
  left_out_.clear();
}

void Reducer::fail(const std::string& sentence) {
  const std::lock_guard lock(mutex_);
  give_up(sentence);
  communicator_->abort_device_backends();
}

void Reducer::fail_unless_failed(const std::string& sentence) {
  const std::lock_guard lock(mutex_);
  if (failure_) return;
  give_up(sentence);
}

void Reducer::restart(std::shared_ptr<Communicator> communicator, bool ends_with_an_exception,
                      std::vector<Parameter> trainable, std::vector<NamedTensor> frozen) {
  const std::lock_guard lock(mutex_);
  pass_.reset();
  pending_end_callbacks_ = std::make_shared<int>(0);
  communicator_ = std::move(communicator);
  options_ = in_world(std::move(options_), *communicator_);
  options_.ends_with_an_exception = ends_with_an_exception;
  model_ =
      std::make_unique<ReducedModel>(Parameters(std::move(trainable), std::move(frozen)), options_);
  forwards_ = SynchronisedForwards();
  forward_count_ = 0;
  left_out_.clear();
  late_flags_.forget();
  failure_.reset();
  listen();
}

void Reducer::update_parameters(std::vector<Parameter> trainable, std::vector<NamedTensor> frozen) {
  const std::lock_guard lock(mutex_);
  drop_pass();
  std::set<const at::TensorImpl*> used;
  for (std::size_t i = 0; i < model_->parameters.count(); ++i) {
    if (model_->usage.was_used(i)) used.insert(model_->parameters[i].unsafeGetTensorImpl());
  }
  model_ =
      std::make_unique<ReducedModel>(Parameters(std::move(trainable), std::move(frozen)), options_);
  for (std::size_t i = 0; i < model_->parameters.count(); ++i) {
    if (used.contains(model_->parameters[i].unsafeGetTensorImpl())) model_->usage.gradient_came(i);
  }
  forwards_.clear_outstanding();
  listen();
}

void Reducer::remove_hooks() {
  const std::lock_guard lock(mutex_);
  hooks_.reset();
}

BucketPlan Reducer::plan() const {
  const std::lock_guard lock(mutex_);
  return model_->layout.plan;
}

void Reducer::set_sample_rate(int sample_rate) {
  const std::lock_guard lock(mutex_);
  times_.set_sample_rate(sample_rate);
}

void Reducer::fill(LoggingData& data) const {
  const std::lock_guard lock(mutex_);
  const Parameters& parameters = model_->parameters;
  data.bucket_cap_bytes = options_.bytes_caps;
  data.comm_hook = options_.hook ? options_.hook->description() : "";
  data.num_parameter_tensors = static_cast<std::int64_t>(parameters.count());
  std::set<std::string> dtypes;
  for (std::size_t i = 0; i < parameters.count(); ++i) {
    data.total_parameter_size_bytes += parameters.sizes()[i].bytes();
    dtypes.emplace(parameters[i].dtype().name());
  }
  data.dtypes.assign(dtypes.begin(), dtypes.end());
  data.bucket_sizes = sizes_of(constructed_plan_);
  data.iteration = model_->pass_count;
  data.has_rebuilt_buckets = model_->is_rebuilt;
  if (model_->is_rebuilt) {
    data.rebuilt_bucket_sizes = sizes_of(model_->layout.plan);
    for (const PlannedBucket& bucket : model_->layout.plan) {
      data.rebuilt_per_bucket_param_indices.push_back(bucket.gradients);
    }
  }
  data.prev_iteration_grad_ready_order_indices = model_->arrivals;
  data.unused_parameter_size = unused_bytes_;
  data.num_buckets_reduced = buckets_reduced_;
  data.error = last_error_;
  times_.fill(data);
}

}  // namespace lockstep
