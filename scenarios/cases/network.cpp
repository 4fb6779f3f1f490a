#include "scenarios/cases/network.h"

#include "harness/core/values.h"

#include <torch/torch.h>

namespace lockstep::scenarios {

namespace {

at::Tensor whole_values(Counter at, int64_t most, at::IntArrayRef shape, at::ScalarType dtype) {
  auto values = torch::empty(shape, at::kDouble);
  auto* data = values.data_ptr<double>();
  for (int64_t i = 0; i < values.numel(); ++i, ++at.index)
    data[i] = static_cast<double>(whole_at(at, most));
  return values.to(dtype);
}

torch::nn::Sequential branch(const NetworkSpec& spec, at::ScalarType dtype) {
  torch::nn::Sequential layers;
  int width = spec.inputs;
  for (const auto& layer : spec.hidden) {
    layers->push_back(
        torch::nn::Linear(torch::nn::LinearOptions(width, layer.width).bias(layer.bias)));
    if (layer.relu) layers->push_back(torch::nn::ReLU());
    width = layer.width;
  }
  layers->push_back(torch::nn::Linear(width, 1));
  layers->to(dtype);
  return layers;
}

at::Tensor samples(const Training& c, Stream stream, int step, const Part& part, int64_t columns,
                   int64_t most) {
  const Counter first{.seed = c.seed,
                      .stream = stream,
                      .step = static_cast<uint64_t>(step),
                      .index = static_cast<uint64_t>(part.begin * columns)};
  return whole_values(first, most, {part.end - part.begin, columns}, dtype_of(c));
}

}  // namespace

Network::Network(const Training& c, uint64_t build_seed) {
  for (int b = 0; b < c.network.branches; ++b)
    branches_.push_back(
        register_module("branch" + std::to_string(b), branch(c.network, dtype_of(c))));
  torch::NoGradGuard no_grad;
  const auto values = initial_parameters(c, build_seed);
  auto own = parameters();
  for (size_t p = 0; p < own.size(); ++p) own[p].copy_(values[p].value);
}

at::Tensor Network::forward(const at::Tensor& input) {
  const size_t count = branches_.size();
  std::vector<at::Tensor> outputs(count);
  for (size_t i = 0; i < count; ++i) {
    const size_t b = (i + static_cast<size_t>(first_branch_)) % count;
    outputs[b] = branches_[b]->forward(input);
  }
  auto sum = outputs.front();
  for (size_t b = 1; b < count; ++b) sum = sum + outputs[b];
  return sum;
}

uint64_t build_seed(const Training& c, int rank) {
  return c.seed * 1000 + static_cast<uint64_t>(rank);
}

std::vector<NamedTensor> initial_parameters(const Training& c, uint64_t build_seed) {
  std::vector<NamedTensor> out;
  Counter next{.seed = build_seed, .stream = Stream::parameter};
  const auto add = [&](const std::string& name, std::vector<int64_t> shape) {
    auto value = whole_values(next, kParameterMost, shape, dtype_of(c));
    next.index += static_cast<uint64_t>(value.numel());
    out.push_back({name, value});
  };
  for (int b = 0; b < c.network.branches; ++b) {
    int place = 0, width = c.network.inputs;
    const auto prefix = [&] {
      return "branch" + std::to_string(b) + "." + std::to_string(place) + ".";
    };
    for (const auto& layer : c.network.hidden) {
      add(prefix() + "weight", {layer.width, width});
      if (layer.bias) add(prefix() + "bias", {layer.width});
      place += layer.relu ? 2 : 1;
      width = layer.width;
    }
    add(prefix() + "weight", {1, width});
    add(prefix() + "bias", {1});
  }
  return out;
}

at::Tensor inputs(const Training& c, int step, const Part& part) {
  return samples(c, Stream::input, step, part, c.network.inputs, kInputMost);
}

at::Tensor cotangents(const Training& c, int step, const Part& part) {
  return samples(c, Stream::cotangent, step, part, 1, kInputMost);
}

double loss_weight(const Training& c) {
  return static_cast<double>(c.world.size) / static_cast<double>(batch_size(c));
}

at::ScalarType dtype_of(const Training& c) {
  return c.dtype == "float64" ? at::kDouble : at::kFloat;
}

}  // namespace lockstep::scenarios
