#include "ddp/reducer/reducer.h"

#include "ddp/agreement.h"
#include "ddp/errors.h"

#include <torch/torch.h>

#include <algorithm>
#include <utility>

namespace lockstep {

namespace {

// `device_number`: counted in the order in which the module's devices appear, since ranks may have
// others of the same kind.
GradientSize size_of(const Reducer::Parameter& parameter, std::size_t device_number) {
  constexpr int kDtypes = static_cast<int>(c10::ScalarType::NumOptions);
  return {.element_count = parameter.tensor.numel(),
          .element_bytes = static_cast<std::int64_t>(parameter.tensor.element_size()),
          .kind = static_cast<int>(parameter.tensor.scalar_type()) +
                  kDtypes * static_cast<int>(device_number),
          .sparse = parameter.sparse,
          .delayed = parameter.delayed};
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

Reducer::Layout::Layout(BucketPlan wanted, const std::vector<at::Tensor>& parameters,
                        const std::vector<GradientSize>& sizes, BucketOptions options)
    : plan(std::move(wanted)), places(parameters.size()), readiness(plan), launcher(plan.size()) {
  for (const PlannedBucket& bucket : plan) {
    if (sizes[bucket.gradients.front()].sparse) {
      loads.emplace_back(SparseSum(parameters[bucket.gradients.front()]));
    } else {
      loads.emplace_back(Bucket(bucket, parameters, options));
    }
    for (std::size_t slot = 0; slot < bucket.gradients.size(); ++slot) {
      places[bucket.gradients[slot]] = {loads.size() - 1, slot};
    }
  }
}

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
      frozen_(std::move(frozen)),
      options_(std::move(options)),
      unused_(trainable.size(), false),
      reached_locally_(trainable.size(), false),
      used_(trainable.size(), false),
      static_graph_(trainable.size()),
      used_somewhere_(trainable.size(), true),
      streams_(trainable.size()) {
  std::vector<c10::Device> devices;
  for (Parameter& each : trainable) {
    const auto device = std::find(devices.begin(), devices.end(), each.tensor.device());
    const auto number = static_cast<std::size_t>(device - devices.begin());
    if (device == devices.end()) devices.push_back(each.tensor.device());
    sizes_.push_back(size_of(each, number));
    shapes_.push_back({.sizes = each.tensor.sizes().vec(),
                       .strides = each.tensor.strides().vec(),
                       .device = each.tensor.device(),
                       .dtype = each.tensor.scalar_type()});
    parameters_.push_back(std::move(each.tensor));
    names_.push_back(std::move(each.name));
  }
  constructed_plan_ = initial_plan();
  layout_ = std::make_unique<Layout>(constructed_plan_, parameters_, sizes_, options_.bucket);
}

void Reducer::listen() {
  hooks_.reset();
  hooks_ = std::make_unique<GradientHooks>(parameters_, [this](std::size_t index) {
    const std::lock_guard lock(mutex_);
    on_gradient(index);
  });
}

BucketPlan Reducer::initial_plan() const {
  return options_.first_plan_has_caps ? first_plan(sizes_, options_.bytes_caps)
                                      : first_plan(sizes_);
}

void Reducer::prepare() {
  const std::lock_guard lock(mutex_);
  check_parameters();
  const bool may_be_rebuilt = !options_.find_unused_parameters;
  if (!is_rebuilt_ && pass_count_ > 0 && may_be_rebuilt) rebuild();
  times_.forward_begins(pass_count_);
}

// Module::to(), torch::load() and set_requires_grad() drop the accumulators that carry our hooks,
// or make gradients that nobody listens for: training would go on, each rank for itself. Where the
// parameter is in the end what it was, we listen anew.
void Reducer::check_parameters() {
  const std::string rank = "rank " + std::to_string(communicator_->rank()) + ": ";
  if (!hooks_) throw UsageError(rank + "remove_autograd_hooks() was called; wrap the module again");
  if (const auto objection = objection_to_parameters()) throw UsageError(rank + *objection);
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (hooks_->is_attached(i, parameters_[i])) continue;
    listen();
    return;
  }
}

std::optional<std::string> Reducer::objection_to_parameters() const {
  const auto objection = [](const std::string& name, const char* what) {
    return "parameter '" + name + "' was " + what + " after it was wrapped; wrap it again";
  };
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const at::Tensor& parameter = parameters_[i];
    if (!parameter.requires_grad()) return objection(names_[i], "frozen");
    if (parameter.scalar_type() != shapes_[i].dtype || parameter.sizes() != shapes_[i].sizes ||
        parameter.strides() != shapes_[i].strides || parameter.device() != shapes_[i].device) {
      return objection(names_[i], "converted, moved or reshaped");
    }
  }
  for (const NamedTensor& each : frozen_) {
    if (each.tensor.requires_grad()) return objection(each.name, "unfrozen");
  }
  return std::nullopt;
}

// A gradient that came more than once counts when it was complete; one that never came, last.
std::vector<std::size_t> Reducer::order_of_completion() const {
  std::vector<std::size_t> order;
  std::vector<bool> seen(parameters_.size(), false);
  for (auto each = arrivals_.rbegin(); each != arrivals_.rend(); ++each) {
    if (!seen[*each]) order.push_back(*each);
    seen[*each] = true;
  }
  std::reverse(order.begin(), order.end());
  for (std::size_t index = 0; index < seen.size(); ++index) {
    if (!seen[index]) order.push_back(index);
  }
  return order;
}

void Reducer::rebuild() {
  const std::vector<std::size_t> mine = order_of_completion();
  at::Tensor order = at::empty({static_cast<std::int64_t>(mine.size())}, at::kLong);
  auto* const words = order.data_ptr<std::int64_t>();
  std::copy(mine.begin(), mine.end(), words);
  Operation broadcast =
      communicator_->start_broadcast(order, "broadcast of the order of gradients");
  communicator_->wait(broadcast);

  BucketPlan plan = assign_buckets_in_order(sizes_, options_.bytes_caps,
                                            std::vector<std::size_t>(words, words + order.numel()));
  agree(*communicator_, {.statements = {{"the plan of gradient buckets", text_of(plan)}}});
  std::vector<bool> is_view(parameters_.size(), false);
  for (std::size_t index = 0; index < parameters_.size(); ++index) {
    const auto [load, slot] = layout_->places[index];
    const auto* const bucket = std::get_if<Bucket>(&layout_->loads[load]);
    is_view[index] = bucket != nullptr && bucket->holds_gradient(slot, parameters_[index]);
  }
  // A program may have worked on gradients that are views, on its stream of now.
  for (Load& load : layout_->loads) {
    if (auto* const bucket = std::get_if<Bucket>(&load)) bucket->enter();
  }
  // Before the new buckets are there, or the peak would have both. Gradients that are views keep
  // their own memory until they have moved.
  layout_->loads.clear();
  try {
    layout_ = std::make_unique<Layout>(std::move(plan), parameters_, sizes_, options_.bucket);
  } catch (const std::exception& error) {
    give_up(std::string("the buckets could not be made: ") + first_line(error));
    throw;
  }
  for (std::size_t index = 0; index < parameters_.size(); ++index) {
    const auto [load, slot] = layout_->places[index];
    if (is_view[index]) std::get<Bucket>(layout_->loads[load]).adopt(slot, parameters_[index]);
  }
  is_rebuilt_ = true;
}

void Reducer::watch(const std::optional<std::vector<at::Tensor>>& outputs, bool synchronised) {
  const std::lock_guard lock(mutex_);
  outputs_are_seen_ = outputs.has_value();
  last_forward_was_synchronised_ = synchronised;
  if (outputs) {
    for (const at::Tensor& output : *outputs) {
      on_gradient_of(output, [reducer = weak_from_this(), synchronised] {
        const auto self = reducer.lock();
        if (!self) return;
        const std::lock_guard held(self->mutex_);
        self->on_output_gradient(synchronised);
      });
    }
  }
  if (options_.find_unused_parameters) {
    const std::vector<bool> reached = hooks_->reachable_from(*outputs);
    for (std::size_t i = 0; i < unused_.size(); ++i) {
      reached_locally_[i] = reached_locally_[i] || (reached[i] && !synchronised);
      const bool was_unused = (synchronised && !has_outstanding_forward_) || unused_[i];
      unused_[i] = was_unused && !reached[i] && !reached_locally_[i];
    }
  }
  if (synchronised) has_outstanding_forward_ = true;
}

void Reducer::ask_before_each_pass(std::function<int()> divisor) {
  const std::lock_guard lock(mutex_);
  ask_divisor_ = std::move(divisor);
}

void Reducer::leave_out_forward(std::int64_t forward_number) {
  const std::lock_guard lock(mutex_);
  left_out_ = "its forward number " + std::to_string(forward_number) + " threw before this pass";
}

void Reducer::fail(const std::string& sentence) {
  const std::lock_guard lock(mutex_);
  give_up(sentence);
  communicator_->let_go_of_devices();
}

void Reducer::fail_unless_failed(const std::string& sentence) {
  const std::lock_guard lock(mutex_);
  if (failure_) return;
  give_up(sentence);
}

void Reducer::restart(std::shared_ptr<Communicator> communicator, bool ends_with_an_exception) {
  const std::lock_guard lock(mutex_);
  communicator_ = std::move(communicator);
  options_.ends_with_an_exception = ends_with_an_exception;
  layout_ = std::make_unique<Layout>(initial_plan(), parameters_, sizes_, options_.bucket);
  is_rebuilt_ = has_outstanding_forward_ = last_forward_was_synchronised_ = false;
  used_.assign(used_.size(), false);
  static_graph_ = StaticGraph(parameters_.size());
  used_somewhere_.assign(used_somewhere_.size(), true);
  pass_ = Pass::none;
  end_is_awaited_ = false;
  ends_to_come_ = 0;
  ++restart_count_;
  complaint_.clear();
  left_out_.clear();
  reached_locally_.assign(reached_locally_.size(), false);
  late_flags_.forget();
  failure_.reset();
  pass_count_ = 0;
  listen();
}

void Reducer::remove_hooks() {
  const std::lock_guard lock(mutex_);
  hooks_.reset();
}

BucketPlan Reducer::plan() const {
  const std::lock_guard lock(mutex_);
  return layout_->plan;
}

void Reducer::set_sample_rate(int sample_rate) {
  const std::lock_guard lock(mutex_);
  times_.set_sample_rate(sample_rate);
}

std::string Reducer::names_of(const std::vector<std::size_t>& indices) const {
  std::string text;
  for (const std::size_t index : indices) {
    if (!text.empty()) text += ", ";
    text += "'" + names_[index] + "'";
  }
  return text.empty() ? "no parameter" : text;
}

}  // namespace lockstep
