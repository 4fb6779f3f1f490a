#include "scenarios/standalone/program_layers.h"

#include "harness/base/text.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace lockstep::scenarios::standalone {

namespace {

using namespace programs;

// As scenarios/programs/layers.cpp and values.cpp have them.
constexpr int64_t kLinearColumns = 3, kSamples = 2;
constexpr int64_t kDrawnMost = 2, kGivenMost = 3;
constexpr double kOddWeights[] = {5, 7};

bool is_table(const LayerSpec& spec) {
  return spec.kind == LayerKind::embedding || spec.kind == LayerKind::sparse;
}

int64_t lookups_of(const LayerSpec& spec) {
  return spec.size == 0 ? 0 : 3;
}

int64_t columns_of_table(const LayerSpec& table) {
  return 2 - table.size % 2;
}

std::vector<int64_t> shape_of_weight(const LayerSpec& spec) {
  if (is_table(spec)) return {std::max<int64_t>(spec.size, 1), columns_of_table(spec)};
  if (spec.kind == LayerKind::linear) return {spec.size, kLinearColumns};
  if (spec.kind == LayerKind::transposed) return {kLinearColumns, spec.size};
  if (spec.kind == LayerKind::channels_last) return {spec.size, 2, 2, 2};
  return {spec.size};
}

int64_t inputs_of_call(const LayerSpec& spec) {
  if (spec.kind == LayerKind::linear) return kSamples * (kLinearColumns + spec.size);
  if (is_table(spec)) return lookups_of(spec) * (1 + columns_of_table(spec));
  int64_t count = spec.dtype == Dtype::complex64 ? 2 : 1;
  for (const auto size : shape_of_weight(spec)) count *= size;
  return count;
}

int64_t calls_of_layer(const LayerSpec& spec) {
  return spec.use == Use::twice ? 2 : 1;
}

void refuse(const LayerSpec& spec) {
  if (spec.element != Element::whole)
    throw NotWritten(
        "layers with an infinite, subnormal or undefined element are not written as programs yet");
  if (spec.travels != Travels::with_others)
    throw NotWritten("layers that are ignored or delayed are not written as programs yet");
}

// Statements that register the parameters of a layer.
std::string registered(const LayerSpec& spec, const std::string& name, const LayerSpec* tied_to,
                       const std::string& tied_name, Counter& next) {
  const auto drawn = [&](std::vector<int64_t> shape) {
    auto out = whole_numbers(next, kDrawnMost, std::move(shape),
                             spec.dtype == Dtype::complex64 ? Dtype::float32 : spec.dtype);
    next.index += out.values.size();
    return literal(out);
  };
  const auto learns = [](bool it_does) { return it_does ? ")\n" : ", requires_grad=False)\n"; };
  const bool weight_learns = spec.frozen == FrozenPart::none;
  std::string out;
  if (tied_to) {
    out = "self." + name + "_weight = self." + tied_name + "_weight\n";
  } else {
    auto value = spec.dtype == Dtype::complex64
                     ? "torch.view_as_complex(" + drawn({spec.size, 2}) + ")"
                     : drawn(shape_of_weight(spec));
    if (spec.kind == LayerKind::transposed) value += ".t().contiguous().t()";
    if (spec.kind == LayerKind::channels_last)
      value += ".contiguous(memory_format=torch.channels_last)";
    out = "self." + name + "_weight = torch.nn.Parameter(" + value + learns(weight_learns);
  }
  if (spec.kind == LayerKind::linear)
    out += "self." + name + "_bias = torch.nn.Parameter(" + drawn({spec.size}) +
           learns(spec.frozen != FrozenPart::all);
  return out;
}

// One call of a layer as an expression of the inputs from `at` on.
std::string call_text(const LayerSpec& spec, const std::string& name, const std::string& weight,
                      int64_t at) {
  const auto cut = [&](int64_t count, const std::string& shape) {
    const auto from = at;
    at += count;
    const auto dtype = spec.dtype == Dtype::complex64 ? Dtype::float32 : spec.dtype;
    return "x[" + std::to_string(from) + ":" + std::to_string(at) + "].view(" + shape +
           ").to(torch." + std::string(word_of(dtype)) + ")";
  };
  if (spec.kind == LayerKind::linear) {
    const auto x = cut(kSamples * kLinearColumns, "2, 3");
    return "(torch.nn.functional.linear(" + x + ", " + weight + ", self." + name + "_bias) * " +
           cut(kSamples * spec.size, "2, " + std::to_string(spec.size)) + ").sum()";
  }
  if (is_table(spec)) {
    const auto from = std::to_string(at), to = std::to_string(at + lookups_of(spec));
    at += lookups_of(spec);
    return "(torch.nn.functional.embedding(x[" + from + ":" + to + "].long() % " +
           std::to_string(std::max<int64_t>(spec.size, 1)) + ", " + weight +
           (spec.kind == LayerKind::sparse ? ", sparse=True) * " : ") * ") +
           cut(lookups_of(spec) * columns_of_table(spec),
               std::to_string(lookups_of(spec)) + ", " + std::to_string(columns_of_table(spec))) +
           ").sum()";
  }
  std::vector<std::string> sizes;
  for (const auto size : shape_of_weight(spec)) sizes.push_back(std::to_string(size));
  if (spec.dtype == Dtype::complex64)
    return "(torch.view_as_real(" + weight + ") * " + cut(inputs_of_call(spec), sizes[0] + ", 2") +
           ").sum()";
  return "(" + weight + " * " + cut(inputs_of_call(spec), joined(sizes, ", ")) + ").sum()";
}

std::string layer_text(const LayerSpec& spec, const std::string& name, int64_t at) {
  const auto own = "self." + name + "_weight";
  std::string weight = own;
  if (spec.use == Use::squared) weight = "(" + own + " * " + own + ")";
  if (spec.use == Use::custom) weight = "Custom.apply(" + own + ")";
  const auto once = call_text(spec, name, weight, at);
  if (spec.use == Use::twice)
    return once + " + " + call_text(spec, name, weight, at + inputs_of_call(spec));
  if (spec.use == Use::recomputed)
    return "checkpoint(lambda _: " + once +
           ", torch.zeros((), requires_grad=True), use_reentrant=True)";
  return once;
}

int64_t input_count(const ProgramSpec& c, int model) {
  int64_t count = 1;
  for (const auto& layer : layers_of(c, model))
    count += calls_of_layer(layer) * inputs_of_call(layer);
  return count;
}

int averages_most(const std::vector<Action>& actions, int model) {
  int most = 1, now = 0;
  for (const auto& action : actions) {
    if (action.model != model) continue;
    if (is_zero(action.step.op)) now = 0;
    if (is_backward(action.step.op) && action.is_synchronised) ++now;
    most = std::max(most, now);
  }
  return most;
}

constexpr const char* kForward = R"(
def forward(self, x, left_out=0, uses_first=True):
    layers = [
%LAYERS    ]
    outputs = [x[0] * 0 for _ in range(%OUTPUTS)]
    outputs[0] = x[0] * self.first.double().sum() if uses_first else x[0]
    for i in range(len(layers)):
        i = (i + self.begin) % len(layers)
        if not left_out >> i & 1:
            outputs[i % %OUTPUTS] = outputs[i % %OUTPUTS] + layers[i]().double()
    return %RETURNED
)";

constexpr const char* kValues = R"(

def wrapped(net):
    return DistributedDataParallel(net%OPTIONS)


def no_sync_of(ddp):
    return ddp.no_sync() if isinstance(ddp, DistributedDataParallel) else nullcontext()


)";

constexpr const char* kCustom =
    R"(class Custom(torch.autograd.Function):  # a gradient with gaps in memory
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return torch.stack([gradient, torch.zeros_like(gradient)], -1).select(-1, 0)


)";

// The body of the class of a model.
std::string layered_body(const ProgramSpec& c, int model) {
  Counter next{
      .seed = c.seed * 1024, .stream = Stream::parameter, .step = static_cast<uint64_t>(model)};
  const auto first = whole_numbers(next, kDrawnMost, {1});
  next.index += first.values.size();
  std::string init = std::string("super().__init__()\nself.begin = ") +
                     (c.order_by_rank ? "rank" : "0") + "\nself.first = torch.nn.Parameter(" +
                     literal(first) + ")\n";
  std::string calls;
  const auto layers = layers_of(c, model);
  int64_t at = 1;
  for (size_t i = 0; i < layers.size(); ++i) {
    const auto& spec = layers[i];
    refuse(spec);
    const auto own = "layer" + std::to_string(i);
    init += registered(spec, own, spec.tied ? &layers[i - 1] : nullptr,
                       "layer" + std::to_string(i == 0 ? 0 : i - 1), next);
    calls += "        lambda: " + layer_text(spec, own, at) + ",\n";
    at += calls_of_layer(spec) * inputs_of_call(spec);
  }
  std::string returned = c.outputs == 1 && !c.returns_first ? "outputs[0]" : "outputs";
  if (c.returns_first) returned += " + [self.first]";
  if (c.nested)
    returned =
        "{\"outputs\": " + (returned == "outputs[0]" ? std::string("outputs") : returned) + "}";
  return "def __init__(self, rank):\n" + indented(init, 4) +
         filled(kForward, {{"%LAYERS", calls},
                           {"%OUTPUTS", std::to_string(c.outputs)},
                           {"%RETURNED", returned}});
}

}  // namespace

std::string program_values(const ProgramSpec& c) {
  bool is_custom = false, is_recomputed = false;
  for (const auto& layer : c.layers) {
    is_custom = is_custom || layer.use == Use::custom;
    is_recomputed = is_recomputed || layer.use == Use::recomputed;
  }
  std::string out = is_recomputed ? "from torch.utils.checkpoint import checkpoint\n" : "";
  out += filled(kValues, {{"%OPTIONS", arguments(c.options)}}) + (is_custom ? kCustom : "");
  for (int model = 0; c.models > 1 && model < c.models; ++model)
    out += "\n\nclass Model" + std::to_string(model) + "(torch.nn.Module):\n" +
           indented(layered_body(c, model), 4);
  return out + "\n";
}

std::string program_net(const ProgramSpec& c) {
  if (c.models == 1) return layered_body(c, 0);
  std::vector<std::string> models;
  for (int model = 0; model < c.models; ++model)
    models.push_back("Model" + std::to_string(model) + "(rank)");
  return "def __init__(self, rank):\n    super().__init__([" + joined(models, ", ") + "])\n";
}

std::string program_inputs(const ProgramSpec& c, const Action& action) {
  std::vector<std::string> ranks;
  for (int rank = 0; rank < c.world.size; ++rank) {
    auto values = whole_numbers({.seed = c.seed,
                                 .stream = Stream::input,
                                 .rank = static_cast<uint64_t>(rank),
                                 .step = static_cast<uint64_t>(action.number)},
                                kGivenMost, {input_count(c, action.model)}, Dtype::float64);
    for (auto& each : values.values)
      if (each == 0) each = kGivenMost;
    ranks.push_back(literal(values));
  }
  return list(ranks);
}

std::string program_weights(const ProgramSpec& c, const std::vector<Action>& actions,
                            const Action& action) {
  std::vector<std::string> ranks;
  for (int rank = 0; rank < c.world.size; ++rank) {
    const auto drawn = bits_at({.seed = c.seed,
                                .stream = Stream::cotangent,
                                .rank = static_cast<uint64_t>(rank),
                                .step = static_cast<uint64_t>(action.number)});
    double weight = std::pow(multiple_of_divisors(c), averages_most(actions, action.model)) *
                    static_cast<double>(1 + drawn % 3);
    if (action.step.rounds)
      weight =
          action.number % c.world.size == rank ? kOddWeights[drawn % std::size(kOddWeights)] : 0;
    if (rank < 4 && has_bit(action.step.infinite, rank))
      weight = std::numeric_limits<double>::infinity();
    ranks.push_back(literal(weight));
  }
  return list(ranks);
}

}  // namespace lockstep::scenarios::standalone
