#include "scenarios/checkpoint/life.h"

#include "harness/base/values.h"
#include "harness/rank/rank_context.h"
#include "scenarios/averaging/divided.h"
#include "scenarios/cases/tensors.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/torch.h>

#include <algorithm>

namespace lockstep::scenarios::checkpoint {

// forward takes one row: the number of samples, the samples, a number for each parameter, its mask,
// and the first parameter that it uses. The gradient of a parameter is four times its value,
// rounded, and the samples, both times its mask: whole multiples of the world's size, since a new
// instance plans buckets anew and may sum in another order.
class Counting : public Model {
 public:
  Counting(const Resumed& c, uint64_t seed, int rank) : unit_(c.world.size) {
    for (size_t p = 0; p < parameter_count(c); ++p) {
      const auto values = real_numbers({.seed = seed,
                                        .stream = Stream::parameter,
                                        .rank = static_cast<uint64_t>(rank),
                                        .index = uint64_t{p} << 32},
                                       {size_of(c, p)});
      weights_.push_back(register_parameter("w" + std::to_string(p), values.to(dtype_of(c, p))));
    }
    count_ = register_buffer(kCount, torch::zeros({1}, at::kLong));
    seen_ = register_buffer(kSeen, torch::zeros({1}, at::kDouble));
  }

  at::Tensor forward(const at::Tensor& input) override {
    const auto count = input[0].item<int64_t>();
    const auto samples = input.narrow(0, 1, count), mask = input.narrow(0, 1 + count, masks());
    const auto first = input[input.numel() - 1].item<int64_t>();
    count_ += 1;
    seen_ += samples.sum();
    at::Tensor loss;
    for (auto p = static_cast<size_t>(first); p < weights_.size(); ++p) {
      const auto weight = weights_[p].to(at::kDouble);
      const auto own = (weight.detach() * 4).round() + samples.sum();
      const auto term = (weight * own).sum() * mask[static_cast<int64_t>(p)] * unit_;
      loss = loss.defined() ? loss + term : term;
    }
    return loss;
  }

  int64_t masks() const { return static_cast<int64_t>(weights_.size()); }

 private:
  std::vector<at::Tensor> weights_;
  at::Tensor count_, seen_;
  const double unit_;
};

int first_save(const Resumed& c) {
  return std::min(c.first_save, c.steps - 1);
}

int last_save(const Resumed& c) {
  return std::min(first_save(c) + c.saves, c.steps) - 1;
}

int saves(const Resumed& c) {
  return last_save(c) - first_save(c) + 1;
}

int age(const Resumed& c) {
  return c.age % saves(c);
}

int kept(const Resumed& c) {
  return c.drops_older ? age(c) + 1 : saves(c);
}

int64_t first_count(const Resumed& c) {
  if (c.count_log2 == 0) return 0;
  constexpr int kLargestExact = 53;
  const int64_t loaded = (int64_t{1} << c.count_log2) + (c.count_log2 < kLargestExact ? 1 : 0);
  return std::max<int64_t>(loaded - steps_loaded(c), 0);
}

size_t group_count(const Resumed& c) {
  return std::min(static_cast<size_t>(c.groups), parameter_count(c));
}

bool has_late_parameter(const Resumed& c) {
  return c.late > 0 && parameter_count(c) > 1;
}

int best_save(const Resumed& c) {
  return first_save(c) + c.best % saves(c);
}

int steps_loaded(const Resumed& c) {
  return c.loads_best ? best_save(c) : last_save(c) - age(c);
}

bool has_trained(const Resumed& c) {
  return c.has_trained && c.wraps_first;
}

int late_rank(const Resumed& c) {
  return c.late_rank < 0 || c.world.size == 1 ? -1 : c.late_rank % c.world.size;
}

std::vector<std::string> recorded_names(const Resumed& c) {
  std::vector<std::string> names{kProgress, kSamples, kMask, kRate, kUpdates};
  for (size_t p = 0; p < parameter_count(c); ++p) names.push_back("w" + std::to_string(p));
  names.insert(names.end(), {kCount, kSeen});
  return names;
}

namespace {

// Calls `use` for each state of an optimizer that counts updates.
template <class Use>
void for_each_count(torch::optim::Optimizer& optimizer, const Use& use) {
  for (const auto& group : optimizer.param_groups())
    for (const auto& parameter : group.params()) {
      const auto found = optimizer.state().find(parameter.unsafeGetTensorImpl());
      if (found == optimizer.state().end()) continue;
      auto* const state = found->second.get();
      if (auto* const adam = dynamic_cast<torch::optim::AdamParamState*>(state)) use(*adam);
      if (auto* const adamw = dynamic_cast<torch::optim::AdamWParamState*>(state)) use(*adamw);
    }
}

uint64_t seed_of(const Resumed& c, Objects objects) {
  return objects == Objects::of_the_case ? c.seed : c.seed + 1;
}

}  // namespace

Life::Life(const Resumed& c, RankContext& here, Objects objects)
    : case_(c),
      here_(here),
      model_(std::make_shared<Counting>(c, seed_of(c, objects), here.rank())),
      sampler_(shard(here, {.length = c.length,
                            .shuffle = c.shuffle,
                            .seed = static_cast<int64_t>(c.seed),
                            .batch_size = c.batch_size})) {
  model_->to(here.device());
  const bool is_of_the_case = objects == Objects::of_the_case;
  optimizer_ = averaging::made(
      c.optimizer, averaging::param_groups(c.optimizer, model_->parameters(), group_count(c),
                                           is_of_the_case ? c.settings : 0));
  const uint64_t seed = seed_of(c, objects) * 1024 + static_cast<uint64_t>(here.rank());
  torch::manual_seed(seed);
  if (c.two_generators) generator_ = at::detail::createCPUGenerator(seed + 512);
  if (is_of_the_case) epoch_ = step_ = first_count(c);
  sampler_->set_epoch(epoch_);
  sampler_->begin({});
}

void Life::wrap() {
  replica_ = lockstep::wrap(here_, model_,
                            {.broadcast_buffers = case_.broadcast_buffers,
                             .find_unused_parameters = has_late_parameter(case_)});
}

TrainingState Life::state() {
  TrainingState out{.model = model_.get(),
                    .optimizer = optimizer_.get(),
                    .sampler = sampler_.get(),
                    .epoch = &epoch_,
                    .step = &step_,
                    .generators = {at::globalContext().defaultGenerator(at::kCPU)}};
  if (!ahead_.empty()) out.samples_used = used_;
  if (generator_.defined()) out.generators.push_back(generator_);
  return out;
}

void Life::prefetch() {
  if (case_.prefetched == 0) return;
  const auto more = sampler_->next(case_.prefetched);
  ahead_.insert(ahead_.end(), more.begin(), more.end());
}

void Life::begin() {
  sampler_->begin({});
}

std::vector<int64_t> Life::rest_of_batch() {
  const auto most = std::min(ahead_.size(), static_cast<size_t>(case_.batch_size));
  const auto end = ahead_.begin() + static_cast<std::ptrdiff_t>(most);
  std::vector<int64_t> samples(ahead_.begin(), end);
  ahead_.erase(ahead_.begin(), end);
  if (const auto lacking = case_.batch_size - static_cast<int64_t>(most); lacking > 0) {
    const auto more = sampler_->next(lacking);
    samples.insert(samples.end(), more.begin(), more.end());
  }
  return samples;
}

std::vector<int64_t> Life::samples() {
  auto samples = rest_of_batch();
  if (samples.empty()) {
    used_ = 0;
    sampler_->set_epoch(++epoch_);
    sampler_->begin({});
    samples = rest_of_batch();
  }
  used_ += static_cast<int64_t>(samples.size());
  return samples;
}

at::Tensor Life::mask() {
  const auto mask = torch::rand({model_->masks()}, at::kDouble);
  if (!generator_.defined()) return mask;
  return (mask + at::rand({model_->masks()}, generator_, at::TensorOptions(at::kDouble)))
      .remainder(1);
}

void Life::record(const std::vector<int64_t>& drawn, const at::Tensor& mask) {
  for (const auto& each : model_->named_parameters())
    here_.record(each.key(), each.value().detach());
  for (const auto& each : model_->named_buffers()) here_.record(each.key(), each.value());
  here_.record(kMask, mask);
  here_.record(kSamples, drawn);
  std::vector<double> rates;
  for (const auto& each : optimizer_->param_groups()) rates.push_back(each.options().get_lr());
  here_.record(kRate, torch::tensor(rates, at::kDouble));
  std::vector<int64_t> updates;
  for_each_count(*optimizer_, [&](const auto& state) { updates.push_back(state.step()); });
  here_.record(kUpdates, updates);
  here_.record(kProgress, std::vector<int64_t>{epoch_, step_});
}

void Life::update(const std::vector<int64_t>& drawn, const at::Tensor& mask, int first_parameter) {
  optimizer_->zero_grad();
  replica_->backward(
      replica_->forward(at::cat({torch::full({1}, static_cast<double>(drawn.size()), at::kDouble),
                                 torch::tensor(drawn).to(at::kDouble), (mask * 4).floor(),
                                 torch::full({1}, first_parameter, at::kDouble)})));
  optimizer_->step();
}

void Life::step_before_load() {
  const auto drawn = samples();
  update(drawn, mask(), 0);
}

void Life::step(const std::string& phase) {
  const auto number = static_cast<int>(step_ - first_count(case_)) + 1;
  const auto drawn = samples();
  const auto own_mask = mask();
  const int first = has_late_parameter(case_) && number <= case_.late ? 1 : 0;
  here_.enter(number, phase + ": backward");
  update(drawn, own_mask, first);
  if (number == 1)
    for_each_count(*optimizer_,
                   [&](auto& state) { state.step(state.step() + first_count(case_)); });
  auto& options = optimizer_->param_groups().front().options();
  if (case_.halves_rate) options.set_lr(options.get_lr() / 2);
  ++step_;
  here_.enter(number, phase);
  record(drawn, own_mask);
}

}  // namespace lockstep::scenarios::checkpoint
