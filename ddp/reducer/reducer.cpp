#include "ddp/reducer/reducer.h"

#include "ddp/consistency/agreement.h"
#include "ddp/errors.h"

#include <torch/torch.h>

#include <algorithm>
#include <utility>

namespace lockstep {

namespace {

std::string text_of(const BucketPlan& plan) {
  std::string text;
  for (const PlannedBucket& bucket : plan) {
    text += '[';
    for (const std::size_t index : bucket.gradients) text += ' ' + std::to_string(index);
    text += " ]";
  }
  return text;
}

// A parameter that forward returns unchanged has no function that identifies its passes.
bool have_graphs(const std::vector<at::Tensor>& outputs) {
  return std::none_of(outputs.begin(), outputs.end(), [](const at::Tensor& each) {
    return each.requires_grad() && each.is_leaf();
  });
}

}  // namespace

Reducer::Layout::Layout(BucketPlan wanted, const std::vector<at::Tensor>& parameters,
                        const std::vector<GradientSize>& sizes, BucketOptions options)
    : plan(std::move(wanted)), places(parameters.size()), readiness(plan), launcher(plan.size()) {
  for (const PlannedBucket& bucket : plan) {
    if (sizes[bucket.gradients.front()].sparse) {
      payloads.emplace_back(SparseSum(parameters[bucket.gradients.front()]));
    } else {
      payloads.emplace_back(Bucket(bucket, parameters, options));
    }
    for (std::size_t slot = 0; slot < bucket.gradients.size(); ++slot) {
      places[bucket.gradients[slot]] = {payloads.size() - 1, slot};
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
      options_(std::move(options)),
      static_graph_(trainable.size()),
      streams_(trainable.size()) {
  take(std::move(trainable), std::move(frozen));
  constructed_plan_ = layout_->plan;
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

// A gradient that came more than once counts at its last arrival; one that never came is last.
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
  agree(*communicator_, {.properties = {{"the plan of gradient buckets", text_of(plan)}}});
  std::vector<bool> is_view(parameters_.size(), false);
  for (std::size_t index = 0; index < parameters_.size(); ++index) {
    const auto [payload, slot] = layout_->places[index];
    const auto* const bucket = std::get_if<Bucket>(&layout_->payloads[payload]);
    is_view[index] = bucket != nullptr && bucket->holds_gradient(slot, parameters_[index]);
  }
  // The caller may have written gradients that are views, on its current stream.
  for (BucketPayload& payload : layout_->payloads) {
    if (auto* const bucket = std::get_if<Bucket>(&payload)) bucket->enter();
  }
  // Before the new buckets are allocated, or peak memory would hold both. Gradients that are views
  // keep their memory until they have moved.
  layout_->payloads.clear();
  try {
    layout_ = std::make_unique<Layout>(std::move(plan), parameters_, sizes_, options_.bucket);
  } catch (const std::exception& error) {
    give_up(std::string("the buckets could not be made: ") + first_line(error));
    throw;
  }
  for (std::size_t index = 0; index < parameters_.size(); ++index) {
    const auto [payload, slot] = layout_->places[index];
    if (is_view[index])
      std::get<Bucket>(layout_->payloads[payload]).adopt(slot, parameters_[index]);
  }
  is_rebuilt_ = true;
}

void Reducer::forward_begins() {
  const std::lock_guard lock(mutex_);
  forward_ = begin_recording();
  last_forward_decides_ = false;
}

void Reducer::watch(const std::optional<std::vector<at::Tensor>>& outputs, bool synchronised) {
  const std::lock_guard lock(mutex_);
  last_forward_decides_ = synchronised && !(outputs && have_graphs(*outputs));
  if (synchronised) remember_forward();
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

// Passes through an output of a forward dropped here are still reduced.
void Reducer::remember_forward() {
  constexpr std::size_t kRemembered = 1024;
  finish_recording(forward_);
  synchronised_forwards_.push_back(forward_);
  if (synchronised_forwards_.size() > kRemembered) synchronised_forwards_.pop_front();
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

void Reducer::restart(std::shared_ptr<Communicator> communicator, bool ends_with_an_exception,
                      std::vector<Parameter> trainable, std::vector<NamedTensor> frozen) {
  const std::lock_guard lock(mutex_);
  communicator_ = std::move(communicator);
  options_.ends_with_an_exception = ends_with_an_exception;
  take(std::move(trainable), std::move(frozen));
  synchronised_forwards_.clear();
  pass_ = Pass::none;
  came_through_an_output_ = false;
  end_is_awaited_ = false;
  ends_to_come_ = 0;
  ++restart_count_;
  validation_error_.clear();
  left_out_.clear();
  late_flags_.forget();
  failure_.reset();
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
