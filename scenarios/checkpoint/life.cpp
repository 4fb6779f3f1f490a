#include "scenarios/checkpoint/life.h"

#include "harness/base/values.h"
#include "harness/rank/rank_context.h"
#include "scenarios/averaging/divided.h"
#include "scenarios/cases/tensors.h"

#include <torch/torch.h>

#include <algorithm>

namespace lockstep::scenarios::checkpoint {

// forward takes one row: the number of samples, the samples, and a number for each parameter, its
// mask. The gradient of a parameter is four times its value, rounded, and the samples, both times
// its mask: whole multiples of the world's size, since a new instance plans buckets anew and may
// sum in another order.
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
    count_ += 1;
    seen_ += samples.sum();
    at::Tensor loss;
    for (size_t p = 0; p < weights_.size(); ++p) {
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

int best_save(const Resumed& c) {
  return first_save(c) + c.best % saves(c);
}

int steps_loaded(const Resumed& c) {
  return c.loads_best ? best_save(c) : last_save(c) - age(c);
}

std::vector<std::string> recorded_names(const Resumed& c) {
  std::vector<std::string> names{kProgress, kSamples, kMask, kRate};
  for (size_t p = 0; p < parameter_count(c); ++p) names.push_back("w" + std::to_string(p));
  names.insert(names.end(), {kCount, kSeen});
  return names;
}

Life::Life(const Resumed& c, RankContext& here, uint64_t seed)
    : case_(c),
      here_(here),
      model_(std::make_shared<Counting>(c, seed, here.rank())),
      sampler_(shard(here, {.length = c.length,
                            .shuffle = c.shuffle,
                            .seed = static_cast<int64_t>(c.seed),
                            .batch_size = c.batch_size})) {
  model_->to(here.device());
  optimizer_ =
      averaging::made(c.optimizer, {torch::optim::OptimizerParamGroup(model_->parameters())});
  torch::manual_seed(seed * 1024 + static_cast<uint64_t>(here.rank()));
  sampler_->begin({});
}

void Life::wrap() {
  replica_ = lockstep::wrap(here_, model_, {.broadcast_buffers = case_.broadcast_buffers});
}

TrainingState Life::state() {
  return {.model = model_.get(),
          .optimizer = optimizer_.get(),
          .sampler = sampler_.get(),
          .epoch = &epoch_,
          .step = &step_,
          .generators = {at::globalContext().defaultGenerator(at::kCPU)}};
}

void Life::begin() {
  sampler_->begin({});
}

std::vector<int64_t> Life::samples() {
  auto samples = sampler_->next(case_.batch_size);
  if (!samples.empty()) return samples;
  sampler_->set_epoch(++epoch_);
  sampler_->begin({});
  return sampler_->next(case_.batch_size);
}

void Life::step(const std::string& phase) {
  const auto drawn = samples();
  const auto mask = torch::rand({model_->masks()}, at::kDouble);
  here_.enter(static_cast<int>(step_) + 1, phase + ": backward");
  optimizer_->zero_grad();
  replica_->backward(
      replica_->forward(at::cat({torch::full({1}, static_cast<double>(drawn.size()), at::kDouble),
                                 torch::tensor(drawn).to(at::kDouble), (mask * 4).floor()})));
  optimizer_->step();
  auto& options = optimizer_->param_groups().front().options();
  if (case_.halves_rate) options.set_lr(options.get_lr() / 2);
  ++step_;
  here_.enter(static_cast<int>(step_), phase);
  for (const auto& each : model_->named_parameters())
    here_.record(each.key(), each.value().detach());
  for (const auto& each : model_->named_buffers()) here_.record(each.key(), each.value());
  here_.record(kMask, mask);
  here_.record(kSamples, drawn);
  here_.record(kRate, torch::full({1}, options.get_lr(), at::kDouble));
  here_.record(kProgress, std::vector<int64_t>{epoch_, step_});
}

}  // namespace lockstep::scenarios::checkpoint
