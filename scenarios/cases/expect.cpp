#include "scenarios/cases/expect.h"

#include "harness/core/scenario.h"

#include <torch/torch.h>

#include <cmath>

namespace lockstep::scenarios {

namespace {

std::vector<reference::Branch> branches(const Training& c, const std::vector<at::Tensor>& values) {
  std::vector<reference::Branch> out;
  size_t next = 0;
  for (int b = 0; b < c.network.branches; ++b) {
    reference::Branch branch;
    for (const auto& layer : c.network.hidden) {
      reference::Dense dense{.weight = values[next++], .bias = {}, .relu = layer.relu};
      if (layer.bias) dense.bias = values[next++];
      branch.push_back(dense);
    }
    const auto& weight = values[next++];
    branch.push_back({.weight = weight, .bias = values[next++]});
    out.push_back(std::move(branch));
  }
  return out;
}

reference::Batch batch(const Training& c, int step, const Part& part) {
  return {inputs(c, step, part).to(at::kDouble), cotangents(c, step, part).to(at::kDouble)};
}

void require_exact(const std::string& why_not, int step) {
  if (!why_not.empty())
    throw Refused("no exact reference at step " + std::to_string(step) + ": " + why_not);
}

std::vector<at::Tensor> updated(const Training& c, const std::vector<at::Tensor>& parameters,
                                const std::vector<at::Tensor>& gradients, int step) {
  const double rate = std::ldexp(1.0, c.learning_rate_log2);
  std::vector<at::Tensor> out;
  for (size_t p = 0; p < parameters.size(); ++p) {
    out.push_back(parameters[p] - rate * gradients[p]);
    const bool fits = at::equal(out.back().to(dtype_of(c)).to(at::kDouble), out.back());
    require_exact(fits ? "" : "the updated parameters need more bits", step);
  }
  return out;
}

}  // namespace

std::vector<ExpectedStep> expected_steps(const Training& c) {
  const int precision_bits = c.dtype == "float64" ? 53 : 24;
  std::vector<at::Tensor> parameters;
  for (const auto& start : initial_parameters(c, build_seed(c, 0)))
    parameters.push_back(start.value.to(at::kDouble));
  std::vector<ExpectedStep> steps;
  for (int step = 0; step < c.steps; ++step) {
    const auto network = branches(c, parameters);
    const auto whole = reference::gradients(network, batch(c, step, {0, batch_size(c)}),
                                            loss_weight(c) / static_cast<double>(c.world.size));
    std::vector<reference::Gradients> by_rank;
    ExpectedStep expected{.average = whole.by_parameter};
    for (int rank = 0; rank < c.world.size; ++rank) {
      by_rank.push_back(
          reference::gradients(network, batch(c, step, part_of_batch(c, rank)), loss_weight(c)));
      expected.local.push_back(by_rank.back().by_parameter);
    }
    require_exact(reference::why_not_exact(by_rank, whole, precision_bits), step);
    if (c.update) parameters = updated(c, parameters, expected.average, step);
    expected.parameters_after = parameters;
    steps.push_back(std::move(expected));
  }
  return steps;
}

TensorValue recorded(const at::Tensor& value, at::ScalarType dtype) {
  const auto plain = value.to(dtype).contiguous();
  TensorValue out{dtype == at::kDouble ? "float64" : "float32", plain.sizes().vec(), {}};
  const auto* bytes = static_cast<const std::byte*>(plain.const_data_ptr());
  out.bytes.assign(bytes, bytes + plain.nbytes());
  return out;
}

}  // namespace lockstep::scenarios
