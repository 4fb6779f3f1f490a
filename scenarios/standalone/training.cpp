#include "scenarios/standalone/training.h"

#include "harness/base/dtype.h"
#include "harness/base/text.h"

#include <cmath>

namespace lockstep::scenarios::standalone {

namespace {

// As the scenarios' network has them.
constexpr int64_t kParameterMost = 2, kInputMost = 3, kBufferMost = 1;

Numbers drawn(const Training& c, const Counter& first, int64_t most, std::vector<int64_t> shape,
              Dtype dtype) {
  const bool is_real = c.values == Values::real && traits_of(dtype).kind != NumberKind::whole;
  return is_real ? real_numbers(first, std::move(shape), dtype)
                 : whole_numbers(first, most, std::move(shape), dtype);
}

uint64_t build_seed(const Training& c, int rank) {
  return c.seed * 1000 + static_cast<uint64_t>(rank);
}

// The parameters of one rank at the start, in order.
std::string start_of(const Training& c, int rank) {
  std::vector<std::string> out;
  Counter next{.seed = build_seed(c, rank), .stream = Stream::parameter};
  const auto add = [&](std::vector<int64_t> shape) {
    const auto value = drawn(c, next, kParameterMost, std::move(shape), c.dtype);
    next.index += value.values.size();
    out.push_back(literal(value));
  };
  for (int b = 0; b < c.network.branches; ++b) {
    int width = c.network.inputs;
    for (const auto& layer : c.network.hidden) {
      add({layer.width, width});
      if (layer.bias) add({layer.width});
      width = layer.width;
    }
    add({1, width});
    add({1});
  }
  return list(out);
}

std::string buffers_of(const Training& c, int rank) {
  std::vector<std::string> out;
  for (size_t i = 0; i < c.network.buffers.size(); ++i) {
    const auto dtype = c.network.buffers[i];
    auto value =
        drawn(c, {.seed = build_seed(c, rank), .stream = Stream::buffer, .index = uint64_t{16} * i},
              kBufferMost, {3}, dtype);
    for (auto& each : value.values)
      if (dtype == Dtype::uint8 && each < 0) each += 256;
    out.push_back(literal(value));
  }
  return list(out);
}

std::string frozen_of(const Training& c, int rank) {
  return literal(drawn(
      c, {.seed = build_seed(c, rank), .stream = Stream::parameter, .index = uint64_t{1} << 32},
      kParameterMost, {2}, value_of_word<Dtype>(word_of(c.network.frozen)).value()));
}

std::string samples_of(const Training& c, Stream stream, int batch, int rank, int64_t columns) {
  const auto part = part_of_batch(c, rank);
  return literal(drawn(c,
                       {.seed = c.seed,
                        .stream = stream,
                        .step = static_cast<uint64_t>(batch),
                        .index = static_cast<uint64_t>(part.begin * columns)},
                       kInputMost, {part.end - part.begin, columns}, c.dtype));
}

std::string by_rank(const Training& c, const std::string& name,
                    std::string (*of)(const Training&, int)) {
  std::vector<std::string> ranks;
  for (int rank = 0; rank < c.world.size; ++rank) ranks.push_back(of(c, rank));
  return table(name, "rank", ranks);
}

std::string by_batch(const Training& c, const std::string& name, Stream stream, int64_t columns) {
  std::vector<std::string> batches;
  for (int batch = 0; batch < c.steps * c.micro_batches; ++batch) {
    std::vector<std::string> ranks;
    for (int rank = 0; rank < c.world.size; ++rank)
      ranks.push_back(samples_of(c, stream, batch, rank, columns));
    batches.push_back(list(ranks));
  }
  return table(name, "batch and rank", batches);
}

// One branch as an expression.
std::string branch_text(const NetworkSpec& spec) {
  std::vector<std::string> layers;
  int width = spec.inputs;
  const auto linear = [&](int outputs, bool bias) {
    layers.push_back("torch.nn.Linear(" + std::to_string(width) + ", " + std::to_string(outputs) +
                     (bias ? ")" : ", bias=False)"));
    width = outputs;
  };
  for (const auto& layer : spec.hidden) {
    linear(layer.width, layer.bias);
    if (layer.relu) layers.emplace_back("torch.nn.ReLU()");
  }
  linear(1, true);
  return "torch.nn.Sequential(" + joined(layers, ", ") + ")";
}

std::string init_text(const Training& c) {
  const auto& spec = c.network;
  std::string out = "super().__init__()\n";
  if (spec.order_by_rank) out += "self.first = rank  # the branch that runs first\n";
  out += "for b in range(" + std::to_string(spec.branches) +
         "):\n    self.add_module(f\"branch{b}\", " + branch_text(spec) + ")\n";
  if (c.dtype == Dtype::float64) out += "self.double()\n";
  out +=
      "with torch.no_grad():\n    for each, value in zip(self.parameters(), START[rank]):\n"
      "        each.copy_(value)\n";
  if (!spec.buffers.empty())
    out +=
        "for i, value in enumerate(BUFFERS[rank]):\n"
        "    self.register_buffer(f\"buffer{i}\", value.clone())\n";
  if (spec.frozen != FrozenDtype::none)
    out += "self.frozen = torch.nn.Parameter(FROZEN[rank].clone(), requires_grad=False)\n";
  return out;
}

std::string forward_text(const NetworkSpec& spec, bool passes_on) {
  const auto branches = std::to_string(spec.branches);
  std::string out = "outputs = {}\nfor b in range(" + branches + "):\n";
  if (spec.order_by_rank) out += "    b = (b + self.first) % " + branches + "\n";
  const std::string output = "getattr(self, f\"branch{b}\")(x)";
  out += "    outputs[b] = " + (passes_on ? "self.passed_on(b, " + output + ")" : output) + "\n";
  if (!spec.buffers.empty())
    out +=
        "with torch.no_grad():\n    for each in self.buffers():\n        if each.dtype == "
        "torch.bool:\n"
        "            each.logical_xor_(torch.tensor(len(x) % 2 == 1))\n        else:\n"
        "            each.add_(len(x))\n";
  if (spec.branches == 1 && !passes_on && spec.buffers.empty()) return "return self.branch0(x)\n";
  return out + "return sum(outputs[b] for b in range(" + branches + "))\n";
}

}  // namespace

Python training_python(const Training& c, const std::string& passed_on) {
  if (group_of(c, 0).size() < static_cast<size_t>(c.world.size))
    throw NotWritten("cases whose ranks train in several groups are not written as programs yet");
  std::string values = by_rank(c, "START", start_of);
  if (!c.network.buffers.empty()) values += by_rank(c, "BUFFERS", buffers_of);
  if (c.network.frozen != FrozenDtype::none) values += by_rank(c, "FROZEN", frozen_of);
  values +=
      by_batch(c, "X", Stream::input, c.network.inputs) + by_batch(c, "Y", Stream::cotangent, 1);
  values +=
      "\n\ndef loss(model, batch, rank):\n    return (model(X[batch][rank]) * "
      "Y[batch][rank]).sum() * " +
      std::to_string(c.world.size) + " / " + std::to_string(batch_size(c)) + "\n\n";
  std::string net = "def __init__(self, rank):\n" + indented(init_text(c), 4);
  if (!passed_on.empty())
    net += "\ndef passed_on(self, branch, output):\n" + indented(passed_on, 4);
  net += "\ndef forward(self, x):\n" + indented(forward_text(c.network, !passed_on.empty()), 4);
  return {
      .world = c.world.size,
      .values = values,
      .net = net,
      .options = arguments(c.options),
      .program = "",
      .held = "{name: each.grad for name, each in net.named_parameters() if each.requires_grad}",
      .tolerance = c.values == Values::exact ? 0 : 1e-5};
}

std::string optimizer_statement(const Training& c) {
  const auto rate = literal(std::ldexp(1.0, c.learning_rate_log2));
  if (c.optimizer == OptimizerKind::adam)
    return "optimizer = torch.optim.Adam(net.parameters(), lr=" + rate + ")\n";
  const bool has_momentum = c.optimizer == OptimizerKind::momentum;
  return "optimizer = torch.optim.SGD(net.parameters(), lr=" + rate +
         (has_momentum ? ", momentum=0.5, weight_decay=0.125)\n" : ")\n");
}

std::string switches_by_branch(const Training& c, const std::string& name,
                               bool (*is)(const Training&, int step, int rank, int branch)) {
  std::vector<std::string> steps;
  for (int step = 0; step < c.steps; ++step) {
    std::vector<std::string> ranks;
    for (int rank = 0; rank < c.world.size; ++rank) {
      std::vector<std::string> branches;
      for (int branch = 0; branch < c.network.branches; ++branch)
        branches.emplace_back(is(c, step, rank, branch) ? "True" : "False");
      ranks.push_back(list(branches));
    }
    steps.push_back(list(ranks));
  }
  return table(name, "step, rank and branch", steps);
}

std::string network_in_words(const Training& c) {
  std::string out = "wraps a network";
  const auto& spec = c.network;
  if (spec.branches > 1) out += " of " + std::to_string(spec.branches) + " branches";
  if (!spec.buffers.empty())
    out += spec.buffers.size() == 1 ? " with a buffer"
                                    : " with " + std::to_string(spec.buffers.size()) + " buffers";
  return out;
}

std::string steps_in_words(int64_t steps) {
  return "trains " + counted(steps, "step");
}

}  // namespace lockstep::scenarios::standalone
