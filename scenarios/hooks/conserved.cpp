#include "scenarios/hooks/conserved.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>

namespace lockstep::scenarios::hooks {

namespace {

// All axes but the first are one.
at::Tensor matrix_of(const at::Tensor& tensor) {
  return tensor.dim() > 2 ? tensor.view({tensor.size(0), -1}) : tensor;
}

at::Tensor matrix_of(const TensorValue& value) {
  return matrix_of(torch::tensor(as_doubles(value), at::kDouble).view(value.shape));
}

double share_in(const Hooked& c, int step) {
  return static_cast<double>(divisor_in(c, step)) / c.world.size;
}

}  // namespace

bool approximates(const Hooked& c, size_t p) {
  const auto size = size_of(c, p);
  const auto sent = static_cast<double>((size.rows + size.columns) * c.hook.matrix_rank);
  const auto rate = std::ldexp(1.0, static_cast<int>(c.hook.compression_log2));
  return sent * rate < static_cast<double>(int64_t{size.rows} * size.columns);
}

double roundoff(const Hooked& c) {
  return c.dtype == Dtype::float64 && c.hook.around == HookCompression::none ? 0x1p-53 : 0x1p-24;
}

bool is_wide(const Hooked& c) {
  return c.hook.around == HookCompression::none && !is_half(c.dtype);
}

// A new replica may lay out its buckets otherwise, in whose order matrices are drawn for, and sums
// are rounded otherwise. So one matrix is compared; other numbers to begin with give another one.
bool has_one_to_compare(const Hooked& c) {
  int approximated = 0;
  for (size_t p = 0; p < parameter_count(c); ++p) approximated += approximates(c, p) ? 1 : 0;
  return is_loaded(c) && is_wide(c) && approximated == 1;
}

std::vector<at::Tensor> received_matrices(const Hooked& c, int step, size_t p) {
  auto all = received(c, step, p);
  for (auto& each : all) each = matrix_of(each);
  return all;
}

at::Tensor applied(const Hooked& c, const History& h, int step, size_t p) {
  return matrix_of(held_after(c, h, step, p).by_rank.front()) * share_in(c, step);
}

at::Tensor never_loaded(const History& h, int step, size_t p) {
  return matrix_of(h.row({step, kNeverLoaded}, name_of(p)).by_rank.front());
}

bool is_known_after(const Hooked& c, int step) {
  for (int rank = 0; rank < c.world.size; ++rank)
    if (!has_input(c, step, rank)) return step == steps_of(c) - 1;
  return true;
}

at::Tensor average(const std::vector<at::Tensor>& by_rank) {
  return at::stack(by_rank).mean(0);
}

at::Tensor average_size(const std::vector<at::Tensor>& by_rank) {
  return at::stack(by_rank).abs().mean(0);
}

namespace {

// The part that each rank has left out until the end of a step; zeros where it keeps nothing.
std::vector<at::Tensor> left_out(const Hooked& c, const History& h, int step, size_t p) {
  const bool has_state = c.hook.use_error_feedback && step >= c.hook.start && approximates(c, p);
  if (!has_state) {
    const auto size = size_of(c, p);
    const auto zeros = at::zeros({size.rows, std::max(size.columns, 1)}, at::kDouble);
    return std::vector(static_cast<size_t>(c.world.size), zeros);
  }
  std::vector<at::Tensor> out;
  for (const auto& value : h.row({step, kLeftOut}, name_of(p)).by_rank)
    out.push_back(matrix_of(value));
  return out;
}

}  // namespace

Step step_of(const Hooked& c, const History& h, int first, int last, size_t p) {
  auto wanted = received_matrices(c, first, p);
  if (first > c.hook.start) {
    const auto before = left_out(c, h, first - 1, p);
    for (size_t rank = 0; rank < wanted.size(); ++rank) wanted[rank] = wanted[rank] + before[rank];
  }
  auto sum_applied = applied(c, h, first, p), sizes = average_size(wanted);
  auto all_sizes = sizes + sum_applied.abs();
  for (int step = first + 1; step <= last; ++step) {
    const auto more = received_matrices(c, step, p);
    for (size_t rank = 0; rank < wanted.size(); ++rank) wanted[rank] = wanted[rank] + more[rank];
    sum_applied = sum_applied + applied(c, h, step, p);
    all_sizes = all_sizes + average_size(more) + applied(c, h, step, p).abs();
  }
  const bool is_known = is_known_after(c, last);
  const auto now = is_known ? left_out(c, h, last, p) : wanted;
  // Each rank rounds a sum, a product and a difference in each step; the reference, in double
  // precision, these and averages.
  const double own = (c.world.size + 4) * std::ldexp(1.0, -53);
  const int steps = last - first + 1;
  const auto rounded = steps == 1 && share_in(c, first) == 1.0
                           ? average_size(wanted) + average_size(now)
                           : all_sizes * (4.0 * steps);
  return {.wanted = average(wanted),
          .applied = sum_applied,
          .left_out = average(now),
          .rounding = rounded * (1.01 * roundoff(c) + own) + std::ldexp(1.0, -148),
          .sizes = sizes};
}

bool is_known_before(const Hooked& c, int step) {
  return step == c.hook.start || is_known_after(c, step - 1);
}

}  // namespace lockstep::scenarios::hooks
