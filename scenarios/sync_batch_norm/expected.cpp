#include "scenarios/sync_batch_norm/expected.h"

#include "harness/cases/scenario.h"
#include "harness/rank/rank_context.h"
#include "harness/rank/tensors.h"
#include "scenarios/cases/tensors.h"

#include <torch/torch.h>

#include <cmath>

namespace lockstep::scenarios::sync_batch_norm {

namespace {

using reference::Rounded;
using reference::Storage;

constexpr const char* kExchangedInItsDtype =
    "sums of a backward pass are exchanged in the input's dtype";

Storage storage_of(at::ScalarType dtype) {
  const auto traits = traits_of(dtype_word(dtype));
  return {.precision_bits = traits.precision_bits,
          .finest_bit_log2 = traits.exponent_min - traits.precision_bits};
}

struct RunningStatistics {
  Rounded average, variance;
  int64_t batches = 0;
};

RunningStatistics moved(const Layer& c, const RunningStatistics& now,
                        const reference::Normalised& batch) {
  if (batch.count == 0) return now;
  RunningStatistics next{.average = {}, .variance = {}, .batches = now.batches + 1};
  const double factor =
      c.norm.cumulative ? 1.0 / static_cast<double>(next.batches) : momentum_of(c.norm).value();
  const auto stored_after = [&](const Rounded& running, const Rounded& of_batch) {
    return reference::stored(
        reference::moved_by(running, of_batch, factor, precision_bits(c.dtype)),
        storage_of(parameter_dtype_of(c)));
  };
  next.average = stored_after(now.average, batch.average);
  next.variance = stored_after(now.variance, batch.unbiased_variance);
  return next;
}

// Its error has what storing adds.
void add_stored(ByRank& to, const Rounded& right, at::ScalarType dtype) {
  auto [value, bound] = written(right, dtype);
  to.values.push_back(std::move(value));
  to.bounds.push_back(std::move(bound));
}

void add_nothing(ByRank& to, at::ScalarType dtype) {
  to.values.push_back(value_of(torch::empty({0}, dtype)));
  to.bounds.push_back(value_of(torch::zeros({0}, at::kDouble)));
}

Step shown(const Layer& c, const reference::Normalised& batch, const RunningStatistics& running) {
  Step step;
  for (int rank = 0; rank < c.world.size; ++rank) {
    const auto r = static_cast<size_t>(rank);
    add(step[kOutput], batch.outputs[r], dtype_of(c));
    if (needs_gradient(c, rank)) {
      add(step[kInputGradient], batch.input_gradients[r], dtype_of(c));
    } else {
      add_nothing(step[kInputGradient], dtype_of(c));
    }
    if (!c.norm.affine) continue;
    const auto add_parameter = [&](const char* name, const char* parameter, const Rounded& right) {
      if (learns(c, parameter))
        add(step[name], right, parameter_dtype_of(c));
      else
        add_nothing(step[name], parameter_dtype_of(c));
    };
    add_parameter(kWeightGradient, "weight", batch.weight_gradients[r]);
    add_parameter(kBiasGradient, "bias", batch.bias_gradients[r]);
  }
  if (!c.norm.track_running_stats) return step;
  add_stored(step[kRunningMean], running.average, parameter_dtype_of(c));
  add_stored(step[kRunningVar], running.variance, parameter_dtype_of(c));
  step[kBatches].values.push_back(value_of(torch::tensor(running.batches, at::kLong)));
  return step;
}

}  // namespace

TensorValue no_gradient(const Layer& c) {
  return value_of(torch::empty({0}, dtype_of(c)));
}

// set_data, so that the module's dtype becomes that of the state.
static void take(at::Tensor& own, const at::Tensor& value) {
  own.set_data(value.to(own.device()));
}

void set_state(Model& model, const Layer& c) {
  const auto state = start_of(c);
  auto parameters = model.named_parameters();
  auto buffers = model.named_buffers();
  if (c.norm.affine) {
    take(parameters["norm.weight"], state.weight);
    take(parameters["norm.bias"], state.bias);
    parameters["norm.weight"].set_requires_grad(learns(c, "weight"));
    parameters["norm.bias"].set_requires_grad(learns(c, "bias"));
  }
  if (!c.norm.track_running_stats) return;
  take(buffers[kRunningMean], state.running_mean);
  take(buffers[kRunningVar], state.running_var);
  take(buffers[kBatches], torch::tensor(state.batches, at::kLong));
}

reference::BatchNorm definition_of(const Layer& c) {
  reference::BatchNorm layer{
      .weight = {}, .bias = {}, .eps = std::ldexp(1.0, static_cast<int>(c.norm.eps_log2))};
  if (!c.norm.affine) return layer;
  const auto start = start_of(c);
  layer.weight = start.weight.to(at::kDouble);
  layer.bias = start.bias.to(at::kDouble);
  return layer;
}

std::vector<reference::BatchPart> parts_of(const Layer& c, int step) {
  std::vector<reference::BatchPart> parts;
  for (int rank = 0; rank < c.world.size; ++rank)
    parts.push_back({input_of(c, step, rank).to(at::kDouble).contiguous(),
                     cotangent_of(c, step, rank).to(at::kDouble).contiguous()});
  return parts;
}

void add(ByRank& to, const Rounded& right, at::ScalarType dtype) {
  add_stored(to, reference::stored(right, storage_of(dtype)), dtype);
}

void record_kernels(RankContext& here) {
  if (here.device().is_cuda()) here.record(kExchangedInItsDtype, std::vector<int64_t>{1});
}

reference::Computing computing_of(const Layer& c) {
  return {.precision_bits = precision_bits(c.dtype), .exchanged_bits = precision_bits(c.dtype)};
}

reference::Computing computing_of(const Layer& c, const History& h) {
  reference::Computing computing = computing_of(c);
  for (const auto& rank : h.ranks())
    for (const auto& event : rank.events)
      if (const auto* const seen = std::get_if<Observation>(&event.what);
          seen && seen->name == kExchangedInItsDtype)
        computing.exchanged_bits = storage_of(dtype_of(c)).precision_bits;
  return computing;
}

std::vector<Step> expected_steps(const Layer& c) {
  return expected_steps(c, computing_of(c));
}

std::vector<Step> expected_steps(const Layer& c, reference::Computing computing) {
  return expected_steps(c, computing, [&c](int step) { return parts_of(c, step); });
}

std::vector<Step> expected_steps(const Layer& c, reference::Computing computing,
                                 const PartsOfStep& parts) {
  const auto start = start_of(c);
  const auto layer = definition_of(c);
  RunningStatistics running{reference::given(start.running_mean.to(at::kDouble)),
                            reference::given(start.running_var.to(at::kDouble)), start.batches};
  std::vector<Step> steps;
  for (int s = 0; s < c.steps; ++s) {
    const auto batch = reference::normalised(layer, parts(s), computing);
    if (batch.is_undecided)
      throw Refused("no reference at step " + std::to_string(s) +
                    ": rounding decides the standard deviation");
    running = moved(c, running, batch);
    steps.push_back(shown(c, batch, running));
  }
  return steps;
}

}  // namespace lockstep::scenarios::sync_batch_norm
