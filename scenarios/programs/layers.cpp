#include "scenarios/programs/layers.h"

#include "scenarios/cases/tensors.h"
#include "scenarios/programs/buffers.h"
#include "scenarios/programs/functions.h"

#include <torch/torch.h>

#include <algorithm>
#include <limits>
#include <set>

namespace lockstep::scenarios::programs {

// Cuts a row of numbers into tensors, one after another.
class LayeredModel::Cutter {
 public:
  explicit Cutter(const at::Tensor& row) : row_(row) {}
  at::Tensor next(at::IntArrayRef shape) {
    const auto count = c10::multiply_integers(shape);
    const auto part = row_.narrow(0, at_, count).view(shape);
    at_ += count;
    return part;
  }
  void skip(int64_t count) { at_ += count; }

 private:
  at::Tensor row_;
  int64_t at_ = 0;
};

namespace {

constexpr int64_t kColumns = 3;  // of a linear or transposed weight
constexpr int64_t kSamples = 2;  // that a linear layer sees
constexpr int64_t kParameterMost = 2;

bool is_table(const LayerSpec& spec) {
  return spec.kind == LayerKind::embedding || spec.kind == LayerKind::sparse;
}

// An embedding has a row at least.
int64_t rows_of(const LayerSpec& spec) {
  return is_table(spec) ? std::max<int64_t>(spec.size, 1) : spec.size;
}

int64_t columns_of_table(const LayerSpec& table) {
  return 2 - table.size % 2;
}

std::vector<int64_t> weight_shape(const LayerSpec& spec) {
  const auto rows = rows_of(spec);
  if (spec.kind == LayerKind::linear) return {rows, kColumns};
  if (spec.kind == LayerKind::transposed) return {kColumns, rows};
  if (is_table(spec)) return {rows, columns_of_table(spec)};
  if (spec.kind == LayerKind::channels_last) return {rows, 2, 2, 2};
  return {rows};
}

// The numbers in one element.
int64_t numbers_in(const LayerSpec& spec) {
  return spec.dtype == Dtype::complex64 ? 2 : 1;
}

int64_t lookups_of(const LayerSpec& spec) {  // of an embedding
  return spec.size == 0 ? 0 : 3;
}

// Inputs of one call.
int64_t inputs_of(const LayerSpec& spec) {
  if (spec.kind == LayerKind::linear) return kSamples * (kColumns + spec.size);
  if (is_table(spec)) return lookups_of(spec) * (1 + columns_of_table(spec));
  return numbers_in(spec) * c10::multiply_integers(weight_shape(spec));
}

int64_t calls_of(const LayerSpec& spec) {
  return spec.use == Use::twice ? 2 : 1;
}

// The middle of a tensor that has one and is contiguous.
at::Tensor middle_of(const at::Tensor& tensor) {
  return tensor.view({-1}).narrow(0, tensor.numel() / 2, 1);
}

// A subnormal number with room below it.
double subnormal_of(Dtype dtype) {
  if (dtype == Dtype::float64) return 0x1p-1060;
  if (dtype == Dtype::float16) return 0x1p-20;
  return dtype == Dtype::bfloat16 ? 0x1p-130 : 0x1p-140;
}

double middle_input(const LayerSpec& spec) {
  if (spec.element == Element::nan) return std::numeric_limits<double>::quiet_NaN();
  if (spec.element == Element::infinity) return std::numeric_limits<double>::infinity();
  return subnormal_of(spec.dtype);
}

}  // namespace

at::Tensor numbers_of(const at::Tensor& tensor) {
  return tensor.is_complex() ? at::view_as_real(tensor.resolve_conj()) : tensor;
}

int64_t added_to_buffers(const at::Tensor& input) {
  return static_cast<int64_t>(input.narrow(0, 0, 1).abs().item<double>());
}

int64_t initial_buffer(uint64_t build_seed, size_t number) {
  return static_cast<int64_t>(build_seed % 5) + static_cast<int64_t>(number);
}

LayeredModel::LayeredModel(const ProgramSpec& c, int model, uint64_t build_seed,
                           std::optional<at::ScalarType> dtype)
    : dtype_(dtype),
      output_count_(static_cast<size_t>(c.outputs)),
      returns_first_(c.returns_first),
      next_value_{
          .seed = build_seed, .stream = Stream::parameter, .step = static_cast<uint64_t>(model)} {
  first_ = register_parameter("first", drawn({1}, at::kFloat));
  const auto layers = layers_of(c, model);
  for (size_t i = 0; i < layers.size(); ++i) add(layers[i], i);
  for (size_t b = 0; b < c.buffers.size(); ++b) {
    buffer_kinds_.push_back(c.buffers[b]);
    buffers_.push_back(register_buffer("buffer" + std::to_string(b),
                                       buffer_of(c.buffers[b], initial_buffer(build_seed, b))));
    if (is_ignored(c, b)) ignored_buffers_.push_back("buffer" + std::to_string(b));
  }
}

at::Tensor LayeredModel::drawn(at::IntArrayRef shape, at::ScalarType dtype) {
  auto values = whole_numbers(next_value_, kParameterMost, shape).to(dtype_.value_or(dtype));
  next_value_.index += static_cast<uint64_t>(values.numel());
  return values;
}

at::Tensor LayeredModel::drawn_weight(const LayerSpec& spec) {
  const auto dtype = scalar_type(spec.dtype);
  if (spec.dtype == Dtype::complex64)
    return at::view_as_complex(drawn({spec.size, 2}, c10::toRealValueType(dtype)));
  auto weight = drawn(weight_shape(spec), dtype);
  // So that an update leaves it a multiple.
  if (spec.element == Element::subnormal && weight.numel() > 0) middle_of(weight).zero_();
  return weight;
}

void LayeredModel::add(const LayerSpec& spec, size_t number) {
  const auto name = "layer" + std::to_string(number);
  const auto dtype = scalar_type(spec.dtype);
  Layer layer{.spec = spec,
              .weight = spec.tied ? layers_.back().weight : drawn_weight(spec),
              .bias = {},
              .weight_name = name + "_weight",
              .bias_name = name + "_bias"};
  const bool learns = spec.tied ? layer.weight.requires_grad() : spec.frozen == FrozenPart::none;
  if (!spec.tied && spec.kind == LayerKind::transposed)
    layer.weight = layer.weight.t().contiguous().t();
  if (!spec.tied && spec.kind == LayerKind::channels_last)
    layer.weight = layer.weight.contiguous(at::MemoryFormat::ChannelsLast);
  if (spec.kind == LayerKind::sparse) {
    layer.weight_name = name + ".weight";
    const auto options =
        torch::nn::EmbeddingOptions(rows_of(spec), columns_of_table(spec)).sparse(true);
    register_module(
        name, torch::nn::Embedding(torch::nn::EmbeddingOptions(options)._weight(layer.weight)));
    layer.weight.set_requires_grad(learns);
    if (dtype_) layer.spec.kind = LayerKind::embedding;
  } else {
    register_parameter(layer.weight_name, layer.weight, learns);
  }
  if (spec.kind == LayerKind::linear)
    layer.bias = register_parameter(layer.bias_name, drawn({spec.size}, dtype),
                                    spec.frozen != FrozenPart::all);
  layer.delays = spec.frozen == FrozenPart::none && (!spec.tied || layers_.back().delays);
  layers_.push_back(std::move(layer));
}

int64_t LayeredModel::input_count() const {
  int64_t count = 1;
  for (const auto& layer : layers_) count += calls_of(layer.spec) * inputs_of(layer.spec);
  return count;
}

namespace {

// One call of a layer: a sum of its parameters times inputs, which no order of additions makes
// round in the gradients.
at::Tensor called(const LayerSpec& spec, const at::Tensor& weight, const at::Tensor& bias,
                  auto& inputs) {
  const auto dtype = weight.scalar_type();
  if (spec.kind == LayerKind::linear) {
    const auto x = inputs.next({kSamples, kColumns}).to(dtype);
    const auto factors = inputs.next({kSamples, spec.size}).to(dtype);
    return (torch::linear(x, weight, bias) * factors).sum();
  }
  if (is_table(spec)) {
    const auto rows = inputs.next({lookups_of(spec)}).to(at::kLong).remainder(rows_of(spec));
    const auto factors = inputs.next({lookups_of(spec), columns_of_table(spec)}).to(dtype);
    const bool is_sparse = spec.kind == LayerKind::sparse;
    return (torch::embedding(weight, rows, -1, false, is_sparse) * factors).sum();
  }
  if (weight.is_complex())
    return (at::view_as_real(weight) * inputs.next({spec.size, 2}).to(c10::toRealValueType(dtype)))
        .sum();
  const auto x = inputs.next(weight_shape(spec)).to(dtype, /*non_blocking=*/false, /*copy=*/true);
  if (spec.element != Element::whole && x.numel() > 0) middle_of(x).fill_(middle_input(spec));
  return (weight * x).sum();
}

}  // namespace

at::Tensor LayeredModel::forward(const at::Tensor& input) {
  const auto parts = outputs(input);
  auto sum = parts.front();
  for (size_t i = 1; i < output_count_; ++i) sum = sum + parts[i];
  return sum;
}

std::vector<at::Tensor> LayeredModel::outputs(const at::Tensor& input) {
  std::vector<Cutter> inputs;
  int64_t begin = 1;
  for (const auto& layer : layers_) {
    const auto count = calls_of(layer.spec) * inputs_of(layer.spec);
    inputs.emplace_back(input.narrow(0, begin, count));
    begin += count;
  }
  std::vector<at::Tensor> sums(output_count_, torch::zeros({}, input.options()));
  sums.front() = input.narrow(0, 0, 1).sum();
  if (call.uses_first) sums.front() = sums.front() * first_.to(at::kDouble).sum();
  for (size_t i = 0; i < layers_.size(); ++i) {
    const auto at = (i + call.first_layer) % layers_.size();
    if (at < 30 && (call.left_out >> at) % 2 == 1) continue;
    const auto& spec = layers_[at].spec;
    auto& sum = sums[at % output_count_];
    for (int64_t each = 0; each < calls_of(spec); ++each)
      sum = sum + run(layers_[at], inputs[at]).to(at::kDouble);
  }
  if (is_training())
    for (size_t b = 0; b < buffers_.size(); ++b)
      add_to_buffer(buffers_[b], buffer_kinds_[b], added_to_buffers(input));
  if (call.throws) throw PlannedException("this forward throws as planned");
  if (returns_first_) sums.push_back(first_);
  return sums;
}

void LayeredModel::set_trainable(int layer, bool is_trainable) {
  auto& chosen = layers_[static_cast<size_t>(layer) % layers_.size()];
  chosen.weight.set_requires_grad(is_trainable);
  if (chosen.bias.defined()) chosen.bias.set_requires_grad(is_trainable);
}

// The reference, all of whose parameters have one dtype, computes plainly.
at::Tensor LayeredModel::run(const Layer& layer, Cutter& inputs) const {
  const auto& spec = layer.spec;
  const auto& weight = layer.weight;
  const auto& bias = layer.bias;
  if (spec.use == Use::squared) return called(spec, weight * weight, bias, inputs);
  if (dtype_) return called(spec, weight, bias, inputs);
  if (spec.use == Use::custom) return called(spec, passed_on(weight), bias, inputs);
  if (spec.use != Use::recomputed) return called(spec, weight, bias, inputs);
  return recomputed([layer, inputs] {
    Cutter again = inputs;
    return called(layer.spec, layer.weight, layer.bias, again);
  });
}

std::vector<at::Tensor> LayeredModel::squared_weights() const {
  const auto is_recomputed = [&](const at::Tensor& weight) {
    return std::any_of(layers_.begin(), layers_.end(), [&](const Layer& layer) {
      return layer.spec.use == Use::recomputed && layer.weight.is_same(weight);
    });
  };
  std::vector<at::Tensor> out;
  for (const auto& each : layers_)
    if (each.spec.use == Use::squared && each.weight.requires_grad() && !is_recomputed(each.weight))
      out.push_back(each.weight);
  return out;
}

bool LayeredModel::is_sparse(const at::Tensor& parameter) const {
  return std::any_of(layers_.begin(), layers_.end(), [&](const Layer& layer) {
    return layer.spec.kind == LayerKind::sparse && layer.weight.is_same(parameter);
  });
}

std::vector<Named> LayeredModel::distinct_parameters() const {
  std::set<const at::TensorImpl*> seen;
  std::vector<Named> out;
  for (const auto& [name, value] : named_parameters().pairs())
    if (seen.insert(value.unsafeGetTensorImpl()).second) out.push_back({name, value});
  return out;
}

}  // namespace lockstep::scenarios::programs
