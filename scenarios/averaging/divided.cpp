#include "scenarios/averaging/divided.h"

#include "harness/base/values.h"
#include "scenarios/cases/tensors.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

namespace lockstep::scenarios::averaging {

namespace {

Counter counter(const Divided& c, Stream stream, int step, size_t p) {
  return {.seed = c.seed,
          .stream = stream,
          .step = static_cast<uint64_t>(step),
          .index = uint64_t{p} << 32};
}

}  // namespace

size_t group_count(const Divided& c) {
  return std::min(static_cast<size_t>(c.groups), parameter_count(c));
}

// LibTorch's Adagrad makes its state where it is made itself, so it takes no group later.
bool has_late_group(const Divided& c) {
  return c.late_group > 0 && c.late_group < c.steps && group_count(c) > 1 &&
         c.optimizer != OptimizerKind::adagrad;
}

size_t groups_in(const Divided& c, int step) {
  return group_count(c) - (has_late_group(c) && step < c.late_group ? 1 : 0);
}

bool resumes(const Divided& c) {
  return c.resume > 0 && c.resume < c.steps;
}

int ranks_in(const Divided& c, int step) {
  return resumes(c) && step >= c.resume ? std::min(c.resume_size, c.world.size) : c.world.size;
}

std::vector<int> first_ranks(int count) {
  std::vector<int> ranks(static_cast<size_t>(count));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

bool has_gradient(const Divided& c, int step, size_t p) {
  if (p % group_count(c) >= groups_in(c, step)) return false;
  return p == 0 || (static_cast<size_t>(step) + p) % 3 >= static_cast<size_t>(c.lacking);
}

std::unique_ptr<torch::optim::Optimizer> made(OptimizerKind kind, const ParamGroups& groups) {
  namespace optim = torch::optim;
  if (kind == OptimizerKind::sgd)
    return std::make_unique<optim::SGD>(groups, optim::SGDOptions(0.1));
  if (kind == OptimizerKind::momentum)
    return std::make_unique<optim::SGD>(groups, optim::SGDOptions(0.1).momentum(0.9));
  if (kind == OptimizerKind::adam)
    return std::make_unique<optim::Adam>(groups, optim::AdamOptions(0.01));
  if (kind == OptimizerKind::adamw)
    return std::make_unique<optim::AdamW>(groups, optim::AdamWOptions(0.01));
  if (kind == OptimizerKind::amsgrad)
    return std::make_unique<optim::Adam>(groups, optim::AdamOptions(0.01).amsgrad(true));
  if (kind == OptimizerKind::adagrad)
    return std::make_unique<optim::Adagrad>(groups, optim::AdagradOptions(0.01));
  return std::make_unique<optim::RMSprop>(groups, optim::RMSpropOptions(0.01).momentum(0.5));
}

int64_t numbers_kept(OptimizerKind optimizer) {
  using enum OptimizerKind;
  static const std::map<OptimizerKind, int64_t> kNumbers{
      {sgd, 0}, {momentum, 1}, {adam, 2}, {adamw, 2}, {amsgrad, 3}, {adagrad, 1}, {rmsprop, 2}};
  return kNumbers.at(optimizer);
}

Tensors parameters_of(const Divided& c, const c10::Device& device) {
  Tensors out;
  for (size_t p = 0; p < parameter_count(c); ++p) {
    const auto values = real_numbers(counter(c, Stream::parameter, 0, p), {size_of(c, p)});
    out.push_back(values.to(device, dtype_of(c, p)).set_requires_grad(true));
  }
  return out;
}

void set_gradients(const Divided& c, int step, const Tensors& parameters) {
  for (size_t p = 0; p < parameters.size(); ++p) {
    const auto values = real_numbers(counter(c, Stream::cotangent, step, p), {size_of(c, p)});
    parameters[p].mutable_grad() =
        has_gradient(c, step, p) ? values.to(parameters[p].options()) : at::Tensor();
  }
}

torch::optim::OptimizerParamGroup group_of_parameters(const Divided& c, const Tensors& parameters,
                                                      size_t g) {
  Tensors members;
  for (size_t p = g; p < parameters.size(); p += group_count(c)) members.push_back(parameters[p]);
  auto options = made(c.optimizer, {members})->param_groups().front().options().clone();
  options->set_lr(options->get_lr() * std::ldexp(1.0, -static_cast<int>(g)));
  return {members, std::move(options)};
}

ParamGroups groups_of(const Divided& c, int step, const Tensors& parameters) {
  ParamGroups out;
  for (size_t g = 0; g < groups_in(c, step); ++g)
    out.push_back(group_of_parameters(c, parameters, g));
  return out;
}

}  // namespace lockstep::scenarios::averaging
