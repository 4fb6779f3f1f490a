#include "scenarios/cases/network.h"

#include "scenarios/cases/tensors.h"

#include <torch/torch.h>

namespace lockstep::scenarios {

namespace {

constexpr const char* kFrozenModule = "frozen";
constexpr int64_t kBufferMost = 1;  // so that a bool has both values

// Whole numbers of at most `most`, or any numbers between -1 and 1, as the case says.
at::Tensor values_from(const Counter& first, int64_t most, at::IntArrayRef shape, const Training& c,
                       at::ScalarType dtype) {
  const bool is_real = c.values == Values::real && at::isFloatingType(dtype);
  return (is_real ? real_numbers(first, shape) : whole_numbers(first, most, shape)).to(dtype);
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

at::Tensor samples(const Training& c, Stream stream, int batch, const Part& part, int64_t columns) {
  const Counter first{.seed = c.seed,
                      .stream = stream,
                      .step = static_cast<uint64_t>(batch),
                      .index = static_cast<uint64_t>(part.begin * columns)};
  return values_from(first, kInputMost, {part.end - part.begin, columns}, c, dtype_of(c));
}

// A module with a single frozen parameter.
class Held : public torch::nn::Module {
 public:
  explicit Held(const at::Tensor& value) { register_parameter("value", value, false); }
};

}  // namespace

Network::Network(const Training& c, uint64_t build_seed) {
  for (int b = 0; b < c.network.branches; ++b)
    branches_.push_back(
        register_module("branch" + std::to_string(b), branch(c.network, dtype_of(c))));
  torch::NoGradGuard no_grad;
  auto own = named_parameters();
  for (const auto& [name, value] : initial_parameters(c, build_seed)) own[name].copy_(value);
  for (const auto& [name, value] : initial_buffers(c, build_seed))
    register_buffer(name, value.clone());
  for (const auto& [name, value] : initial_frozen(c, build_seed))
    register_module(kFrozenModule, std::make_shared<Held>(value.clone()));
}

at::Tensor Network::forward(const at::Tensor& input) {
  if (on_entry) on_entry();
  const size_t count = branches_.size();
  std::vector<at::Tensor> outputs(count);
  for (size_t i = 0; i < count; ++i) {
    const size_t b = (i + static_cast<size_t>(first_branch_)) % count;
    outputs[b] = passed_on(static_cast<int>(b), branches_[b]->forward(input));
  }
  auto sum = outputs.front();
  for (size_t b = 1; b < count; ++b) sum = sum + outputs[b];
  torch::NoGradGuard no_grad;
  for (auto& buffer : buffers())
    buffer.scalar_type() == at::kBool ? buffer.logical_xor_(torch::tensor(input.size(0) % 2 == 1))
                                      : buffer.add_(input.size(0));
  return sum;
}

uint64_t build_seed(const Training& c, int rank) {
  return c.seed * 1000 + static_cast<uint64_t>(rank);
}

std::vector<NamedTensor> initial_parameters(const Training& c, uint64_t build_seed) {
  std::vector<NamedTensor> out;
  Counter next{.seed = build_seed, .stream = Stream::parameter};
  const auto add = [&](const std::string& name, std::vector<int64_t> shape) {
    auto value = values_from(next, kParameterMost, shape, c, dtype_of(c));
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

std::vector<NamedTensor> initial_frozen(const Training& c, uint64_t build_seed) {
  if (c.network.frozen == FrozenDtype::none) return {};
  // Far beyond the counters of every trainable parameter.
  const Counter first{.seed = build_seed, .stream = Stream::parameter, .index = uint64_t{1} << 32};
  return {{std::string(kFrozenModule) + ".value",
           values_from(first, kParameterMost, {2}, c,
                       scalar_type(value_of_word<Dtype>(word_of(c.network.frozen)).value()))}};
}

std::vector<NamedTensor> initial_buffers(const Training& c, uint64_t build_seed) {
  std::vector<NamedTensor> out;
  for (size_t i = 0; i < c.network.buffers.size(); ++i) {
    const Counter first{
        .seed = build_seed, .stream = Stream::buffer, .index = static_cast<uint64_t>(16 * i)};
    out.push_back({"buffer" + std::to_string(i),
                   values_from(first, kBufferMost, {3}, c, scalar_type(c.network.buffers[i]))});
  }
  return out;
}

at::Tensor inputs(const Training& c, int batch, const Part& part) {
  return samples(c, Stream::input, batch, part, c.network.inputs);
}

at::Tensor cotangents(const Training& c, int batch, const Part& part) {
  return samples(c, Stream::cotangent, batch, part, 1);
}

at::Tensor loss_of_part(const Training& c, int batch, int rank, Replica& replica) {
  const Part part = part_of_batch(c, rank);
  const auto output = replica.forward(inputs(c, batch, part));
  return (output * cotangents(c, batch, part)).sum() * loss_weight(c);
}

double loss_weight(const Training& c) {
  return static_cast<double>(c.world.size) / static_cast<double>(batch_size(c));
}

void record_parameters(RankContext& here, const torch::nn::Module& model) {
  for (const auto& parameter : model.named_parameters()) here.record(parameter.key(), *parameter);
}

void record_gradients(RankContext& here, const torch::nn::Module& model) {
  for (const auto& parameter : model.named_parameters())
    if (parameter->requires_grad())
      here.record(parameter.key(), gradient_or_nothing(parameter.value()));
}

void record_buffers(RankContext& here, const torch::nn::Module& model) {
  for (const auto& buffer : model.named_buffers()) here.record(buffer.key(), *buffer);
}

std::vector<std::string> trainable(const Training& c) {
  std::vector<std::string> names;
  for (const auto& parameter : initial_parameters(c, 0)) names.push_back(parameter.name);
  return names;
}

int branch_of(const std::string& parameter) {
  return std::stoi(parameter.substr(std::string("branch").size()));
}

at::ScalarType dtype_of(const Training& c) {
  return scalar_type(c.dtype);
}

}  // namespace lockstep::scenarios
