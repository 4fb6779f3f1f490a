#include "scenarios/programs/values.h"

#include "harness/base/values.h"
#include "scenarios/cases/tensors.h"

#include <torch/torch.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <limits>
#include <span>

namespace lockstep::scenarios::programs {

namespace {

constexpr int64_t kInputMost = 3;
constexpr int64_t kLoadedMost = 2;
constexpr double kOddWeights[] = {5, 7};  // multiples of no number of ranks up to four
constexpr int64_t kShownWhole = 2048;     // elements
constexpr int64_t kShownOfLarge = 32;     // at each end

// The most averages that one gradient of the model goes through before it is cleared.
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

// By their values: zeros of both signs count alike, and so does all that is no number. In place of
// nine calls of LibTorch, each of which makes a tensor: states of large layers are most of what a
// case shows.
int64_t checksum(const at::Tensor& value) {
  const auto plain = value.to(at::kDouble).contiguous();
  uint64_t sum = 0, factor = 1;
  for (const auto number :
       std::span(plain.const_data_ptr<double>(), static_cast<size_t>(plain.numel()))) {
    sum += std::bit_cast<uint64_t>(std::isnan(number) ? 0.125 : number + 0.0) * factor;
    factor += 2;
  }
  return static_cast<int64_t>(sum);
}

}  // namespace

at::Tensor input_of(const ProgramSpec& c, const Action& action, int rank, int64_t count) {
  auto values = whole_numbers({.seed = c.seed,
                               .stream = Stream::input,
                               .rank = static_cast<uint64_t>(rank),
                               .step = static_cast<uint64_t>(action.number)},
                              kInputMost, {count});
  return values.masked_fill_(values == 0, static_cast<double>(kInputMost));
}

Call call_of(const ProgramSpec& c, const Action& action, int rank) {
  return {.left_out = left_out(c, action.step, rank),
          .uses_first = action.uses_first,
          .first_layer = c.order_by_rank ? static_cast<size_t>(rank) : 0,
          .throws = action.step.op == Op::throw_};
}

double weight_of(const ProgramSpec& c, const std::vector<Action>& actions, const Action& action,
                 int rank) {
  if (rank < 4 && has_bit(action.step.infinite, rank))
    return std::numeric_limits<double>::infinity();
  const auto drawn = bits_at({.seed = c.seed,
                              .stream = Stream::cotangent,
                              .rank = static_cast<uint64_t>(rank),
                              .step = static_cast<uint64_t>(action.number)});
  if (action.step.rounds)
    return action.number % c.world.size == rank ? kOddWeights[drawn % std::size(kOddWeights)] : 0;
  return std::pow(multiple_of_divisors(c), averages_most(actions, action.model)) *
         static_cast<double>(1 + drawn % 3);
}

at::Tensor penalty_of(const at::Tensor& output, const LayeredModel& model) {
  const auto weights = model.squared_weights();
  auto sum = torch::zeros({}, output.options());
  if (weights.empty() || !output.requires_grad()) return sum;
  const auto gradients = torch::autograd::grad({output}, weights, {}, /*retain_graph=*/true,
                                               /*create_graph=*/true, /*allow_unused=*/true);
  for (const auto& each : gradients)
    if (each.defined()) sum = sum + (each * each).sum();
  return sum;
}

at::Tensor penalty_for_input(const at::Tensor& output, const at::Tensor& input) {
  const auto gradient = torch::autograd::grad({output}, {input}, {}, /*retain_graph=*/true,
                                              /*create_graph=*/true)
                            .front();
  return (gradient * gradient).sum();
}

at::Tensor loaded_parameter(const ProgramSpec& c, const Action& action, size_t p,
                            at::IntArrayRef shape) {
  return whole_numbers({.seed = c.seed,
                        .stream = Stream::parameter,
                        .rank = 1 + p,
                        .step = static_cast<uint64_t>(action.number)},
                       kLoadedMost, shape);
}

int64_t loaded_buffer(const ProgramSpec& c, const Action& action, size_t buffer, int rank) {
  return kLoadedMost + whole_at({.seed = c.seed,
                                 .stream = Stream::buffer,
                                 .rank = static_cast<uint64_t>(rank),
                                 .step = static_cast<uint64_t>(action.number),
                                 .index = buffer},
                                kLoadedMost);
}

at::Tensor sum_of_outputs(const ProgramSpec& c, const Action& action, int rank,
                          const std::vector<at::Tensor>& outputs) {
  auto sum = outputs.front();
  const auto left_out = left_out_of_loss(c, action.step, rank);
  for (size_t i = 1; i < static_cast<size_t>(c.outputs); ++i)
    if ((left_out >> i) % 2 == 0) sum = sum + outputs[i];
  return sum;
}

bool clears_gradients(const ProgramSpec& c, const Action& finish, int rank) {
  return c.options.gradient_as_bucket_view && is_shadowed(finish.join) &&
         finish.is_out[static_cast<size_t>(rank)];
}

Form form_of(const at::Tensor& tensor) {
  return {c10::toRealValueType(tensor.scalar_type()), numbers_of(tensor).numel()};
}

bool is_shown_whole(const Form& form) {
  return form.count <= kShownWhole;
}

std::vector<Named> shown(const std::string& name, const at::Tensor& value, const Form& form) {
  auto stored = value.defined() ? value.detach().cpu() : torch::empty({0}, form.dtype);
  stored = numbers_of(stored.is_sparse() ? stored.to_dense() : stored).to(form.dtype);
  if (is_shown_whole(form)) return {{name, stored.clone()}};
  const auto row = stored.contiguous().reshape({-1});
  const auto end = std::min(kShownOfLarge, row.numel());
  const auto ends = torch::cat({row.narrow(0, 0, end), row.narrow(0, row.numel() - end, end)});
  return {{name + " (its ends)", ends},
          {name + " (checksum)", torch::full({1}, checksum(stored), at::kLong)}};
}

}  // namespace lockstep::scenarios::programs
