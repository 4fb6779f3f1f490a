#include "scenarios/averaging/divided.h"

#include "harness/base/values.h"
#include "reference/averaging.h"
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

at::Tensor values_of(const Divided& c, Stream stream, int step, size_t p) {
  const auto dtype = dtype_of(c, p);
  const int64_t parts = at::isComplexType(dtype) ? 2 : 1;
  const auto row = real_numbers(counter(c, stream, step, p), {parts * size_of(c, p)})
                       .to(c10::toRealValueType(dtype));
  return parts == 1 ? row : at::view_as_complex(row.view({-1, parts})).clone();
}

}  // namespace

at::ScalarType dtype_of(const Divided& c, size_t p) {
  const auto dtype = scenarios::dtype_of(c, p, at::kFloat);
  return c.optimizer == OptimizerKind::amsgrad ? c10::toRealValueType(dtype) : dtype;
}

at::Tensor parts_of(const at::Tensor& tensor) {
  return (tensor.is_complex() ? at::view_as_real(tensor) : tensor).reshape({-1});
}

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

void settle(OptimizerKind kind, int settings, torch::optim::OptimizerOptions& options) {
  namespace optim = torch::optim;
  constexpr int kKinds = 3;
  if (settings == 0) return;
  const int number = 1 + (settings - 1) % kKinds;
  const double decay = 0.0625 * number, eps = std::ldexp(1.0, -6 - number);
  const auto betas = std::make_tuple(0.75 + decay, 0.875 + decay / 8);
  const auto settle_adam = [&](auto& adam) { adam.weight_decay(decay).eps(eps).betas(betas); };
  if (kind == OptimizerKind::sgd || kind == OptimizerKind::momentum) {
    auto& sgd = static_cast<optim::SGDOptions&>(options);
    sgd.weight_decay(decay);
    if (kind == OptimizerKind::sgd) return;
    if (number % 2 == 0)
      sgd.nesterov(true);
    else
      sgd.dampening(2 * decay);
  } else if (kind == OptimizerKind::adamw) {
    settle_adam(static_cast<optim::AdamWOptions&>(options));
  } else if (kind == OptimizerKind::adagrad) {
    static_cast<optim::AdagradOptions&>(options).weight_decay(decay).eps(eps).lr_decay(decay);
  } else if (kind == OptimizerKind::rmsprop) {
    static_cast<optim::RMSpropOptions&>(options).weight_decay(decay).eps(eps).alpha(1 - decay);
  } else {
    settle_adam(static_cast<optim::AdamOptions&>(options));
  }
}

namespace {

torch::optim::OptimizerParamGroup param_group(OptimizerKind kind, const Tensors& parameters,
                                              size_t count, size_t g, int settings) {
  Tensors members;
  for (size_t p = g; p < parameters.size(); p += count) members.push_back(parameters[p]);
  auto options = made(kind, {members})->param_groups().front().options().clone();
  options->set_lr(options->get_lr() * std::ldexp(1.0, -static_cast<int>(g)));
  settle(kind, settings == 0 ? 0 : settings + static_cast<int>(g), *options);
  return {members, std::move(options)};
}

}  // namespace

ParamGroups param_groups(OptimizerKind kind, const Tensors& parameters, size_t count,
                         int settings) {
  ParamGroups out;
  for (size_t g = 0; g < count; ++g)
    out.push_back(param_group(kind, parameters, count, g, settings));
  return out;
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
    out.push_back(values_of(c, Stream::parameter, 0, p).to(device).set_requires_grad(true));
  }
  return out;
}

void set_gradients(const Divided& c, int step, const Tensors& parameters) {
  for (size_t p = 0; p < parameters.size(); ++p) {
    const auto values = values_of(c, Stream::cotangent, step, p);
    parameters[p].mutable_grad() =
        has_gradient(c, step, p) ? values.to(parameters[p].device()) : at::Tensor();
  }
}

torch::optim::OptimizerParamGroup group_of_parameters(const Divided& c, const Tensors& parameters,
                                                      size_t g) {
  return param_group(c.optimizer, parameters, group_count(c), g, c.settings);
}

ParamGroups groups_of(const Divided& c, int step, const Tensors& parameters) {
  ParamGroups out;
  for (size_t g = 0; g < groups_in(c, step); ++g)
    out.push_back(group_of_parameters(c, parameters, g));
  return out;
}

std::vector<int64_t> elements_kept(const Divided& c, int step) {
  std::vector<std::vector<int64_t>> bytes(groups_in(c, step));
  std::vector<std::vector<size_t>> members(bytes.size());
  for (size_t p = 0; p < parameter_count(c); ++p) {
    const size_t g = p % group_count(c);
    if (g >= bytes.size()) continue;
    members[g].push_back(p);
    bytes[g].push_back(size_of(c, p) * static_cast<int64_t>(c10::elementSize(dtype_of(c, p))));
  }
  const auto owners = reference::owners(bytes, ranks_in(c, step));
  std::vector<int64_t> kept(static_cast<size_t>(c.world.size));
  for (size_t g = 0; g < members.size(); ++g)
    for (size_t i = 0; i < members[g].size(); ++i) {
      bool has_state = c.optimizer == OptimizerKind::adagrad;
      for (int past = 0; past <= step; ++past)
        has_state = has_state || has_gradient(c, past, members[g][i]);
      if (has_state)
        kept[static_cast<size_t>(owners[g][i])] +=
            size_of(c, members[g][i]) * numbers_kept(c.optimizer);
    }
  return kept;
}

}  // namespace lockstep::scenarios::averaging
