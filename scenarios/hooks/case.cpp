#include "scenarios/hooks/case.h"

#include "harness/base/values.h"
#include "harness/rank/rank_context.h"
#include "harness/verdict/compare.h"
#include "harness/worlds/subject.h"
#include "scenarios/cases/tensors.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace lockstep::scenarios::hooks {

namespace {

constexpr int64_t kLargestAverage = 4;  // of exact gradients, before the sum
constexpr double kLargestFloat16 = 65504;

bool passes_float16(const Hooked& c) {
  return sent_dtype(c) == Dtype::float16 || c.dtype == Dtype::float16;
}

int64_t numel(const Size& size) {
  return static_cast<int64_t>(size.rows) * std::max(size.columns, 1);
}

// The factor of exact gradients, whose averages are so whole numbers.
double common_multiple(const Hooked& c) {
  if (!has_join(c) || c.divisor == JoinKind::world) return c.world.size;
  int multiple = 1;
  for (int divisor = 2; divisor <= c.world.size; ++divisor) multiple = std::lcm(multiple, divisor);
  return multiple;
}

// A sum of products of two vectors, each a sixteenth of the one before.
at::Tensor falling(const Hooked& c, const Size& size, size_t parameter) {
  constexpr int kTerms = 6;
  Counter at{.seed = c.seed, .stream = Stream::parameter, .index = uint64_t{parameter} << 32};
  at::Tensor sum = torch::zeros({size.rows, size.columns}, at::kDouble);
  for (int k = 0; k < kTerms; ++k) {
    const auto column = real_numbers(at, {size.rows, 1});
    at.index += static_cast<uint64_t>(size.rows);
    const auto row = real_numbers(at, {1, size.columns});
    at.index += static_cast<uint64_t>(size.columns);
    sum += column.mm(row) * std::ldexp(1.0, -4 * k);
  }
  return sum;
}

}  // namespace

std::vector<int64_t> shape_of(const Size& size) {
  if (size.columns == 0) return {size.rows};
  if (has_several_axes(size)) return {size.rows, size.columns / size.depth, size.depth};
  return {size.rows, size.columns};
}

Size size_of(const Hooked& c, size_t parameter) {
  return c.sizes.empty() ? Size() : c.sizes[parameter];
}

int64_t elements_of(const Hooked& c) {
  int64_t sum = 0;
  for (size_t p = 0; p < parameter_count(c); ++p) sum += numel(size_of(c, p));
  return sum;
}

std::string name_of(size_t parameter) {
  return "w" + std::to_string(parameter);
}

bool has_join(const Hooked& c) {
  return !c.inputs.empty();
}

bool has_input(const Hooked& c, int step, int rank) {
  return !has_join(c) || step < c.inputs[static_cast<size_t>(rank) % c.inputs.size()];
}

bool has_first_pass(const Hooked& c) {
  return c.first_pass != FirstPass::none && c.hook.kind == HookKind::power_sgd &&
         c.hook.start == 0 && !has_join(c);
}

int steps_of(const Hooked& c) {
  int steps = 0;
  for (int rank = 0; rank < c.world.size; ++rank)
    while (steps < c.steps && has_input(c, steps, rank)) ++steps;
  return steps;
}

int divisor_in(const Hooked& c, int step) {
  if (!has_join(c) || c.divisor == JoinKind::world) return c.world.size;
  int count = 0;
  for (int rank = 0; rank < c.world.size; ++rank) count += has_input(c, step, rank) ? 1 : 0;
  return count;
}

bool has_uneven_inputs(const Hooked& c) {
  const int last = steps_of(c) - 1;
  bool some = false, all = true;
  for (int rank = 0; last >= 0 && rank < c.world.size; ++rank) {
    some = some || has_input(c, last, rank);
    all = all && has_input(c, last, rank);
  }
  return some && !all;
}

std::string why_not_joined(const Hooked& c) {
  if (!has_join(c)) return "";
  if (steps_of(c) == 0) return "no rank has an input";
  if (c.options.static_graph) return "a join refuses a static graph";
  return c.reload > 0 ? "no hook is loaded in a join" : "";
}

at::ScalarType dtype_of(const Hooked& c) {
  return scalar_type(c.dtype);
}

Dtype sent_dtype(const Hooked& c) {
  if (c.hook.around == HookCompression::fp16_compress) return Dtype::float16;
  if (c.hook.around == HookCompression::bf16_compress) return Dtype::bfloat16;
  if (c.hook.kind == HookKind::fp16_compress) return Dtype::float16;
  if (c.hook.kind == HookKind::bf16_compress) return Dtype::bfloat16;
  return c.dtype;
}

bool has_several_axes(const Size& size) {
  return size.depth > 1 && size.columns > 0 && size.columns % size.depth == 0;
}

int magnitude_log2_max(const Hooked& c) {
  constexpr int kAlways = 13, kHalf = 15, kSingle = 127;
  using enum HookKind;
  const bool divides_first = c.hook.kind == all_reduce || c.hook.kind == own_work ||
                             c.hook.kind == noop || compresses(c.hook.kind);
  int most = kSingle;
  if (!divides_first || c.dtype == Dtype::float64 || sent_dtype(c) == Dtype::float64)
    most = kAlways;
  else if (passes_float16(c))
    most = kHalf;
  if (!c.is_constant || !passes_float16(c)) return most;
  // The gradients of the last rank, by falling().
  return std::min(most, std::ilogb(kLargestFloat16 / (16.0 / 15 * c.world.size)));
}

std::string why_too_large(const Hooked& c) {
  const bool fits =
      c.values == Values::exact
          ? !passes_float16(c) || kLargestAverage * common_multiple(c) <= kLargestFloat16
          : c.magnitude_log2 <= magnitude_log2_max(c);
  return fits ? "" : "gradients of this magnitude have no place in the hook's numbers";
}

int bits_of(Dtype dtype) {
  return traits_of(dtype).precision_bits;
}

bool turns_into_bytes(const Hooked& c) {
  return c.hook.kind == HookKind::quantize;
}

reference::Format format_of(const Hooked& c) {
  return {.precision_bits = std::min(bits_of(sent_dtype(c)), bits_of(c.dtype)),
          .exact = c.values == Values::exact && !turns_into_bytes(c)};
}

std::string why_not_exact(const Hooked& c, int step) {
  const int divisor = divisor_in(c, step);
  const auto single_divisor = static_cast<float>(divisor);
  const auto format = format_of(c);
  const auto needs_more = "a gradient that is exact needs more bits than a hook sends";
  for (size_t p = 0; p < parameter_count(c); ++p) {
    std::vector<reference::Rounded> by_rank;
    const auto narrow = received(c, step, p);
    for (int rank = 0; rank < c.world.size; ++rank) {
      const auto own = gradient_of(c, step, rank, p);
      const auto single = own.to(at::kFloat);
      if (!at::equal(single * (1.0F / single_divisor), single / single_divisor))
        return "scaling by the rounded 1/" + std::to_string(divisor) + " is not exact";
      by_rank.push_back(reference::given(own.to(at::kDouble)));
      if (!at::equal(narrow[static_cast<size_t>(rank)], by_rank.back().value)) return needs_more;
    }
    reference::Arithmetic arithmetic(format);
    arithmetic.average(by_rank);
    if (arithmetic.units_max() > std::ldexp(1.0, format.precision_bits)) return needs_more;
  }
  return "";
}

bool is_loaded(const Hooked& c) {
  return c.hook.kind == HookKind::power_sgd && c.reload > 0 && c.reload < c.steps;
}

bool has_another_seed(const Hooked& c) {
  return c.hook.kind == HookKind::power_sgd && c.hook.random_seed > 0 && !has_join(c) &&
         c.reload == 0 && c.steps > c.hook.start;
}

bool compresses(HookKind kind) {
  return kind == HookKind::fp16_compress || kind == HookKind::bf16_compress;
}

at::Tensor gradient_of(const Hooked& c, int step, int rank, size_t parameter) {
  const auto size = size_of(c, parameter);
  const auto shape = shape_of(size);
  if (!has_input(c, step, rank)) return at::zeros(shape, dtype_of(c));
  if (c.is_constant && c.values == Values::real && size.columns > 0)
    return (falling(c, size, parameter) * ((rank + 1) * std::ldexp(1.0, c.magnitude_log2)))
        .view(shape)
        .to(dtype_of(c));
  const Counter first{.seed = c.seed,
                      .stream = Stream::cotangent,
                      .rank = static_cast<uint64_t>(rank),
                      .step = static_cast<uint64_t>(step),
                      .index = uint64_t{parameter} << 32};
  const auto values = c.values == Values::exact
                          ? whole_numbers(first, kLargestAverage, shape) * common_multiple(c)
                          : real_numbers(first, shape) * std::ldexp(1.0, c.magnitude_log2);
  return values.to(dtype_of(c));
}

std::vector<at::Tensor> received(const Hooked& c, int step, size_t parameter) {
  const auto narrow = scalar_type(sent_dtype(c));
  std::vector<at::Tensor> out;
  for (int rank = 0; rank < c.world.size; ++rank)
    out.push_back(gradient_of(c, step, rank, parameter).to(narrow).to(at::kDouble));
  return out;
}

std::string why_rounded_twice(const Hooked& c) {
  const bool twice = c.hook.around != HookCompression::none && compresses(c.hook.kind);
  return twice || (is_half(c.dtype) && sent_dtype(c) != c.dtype)
             ? "gradients are rounded to two dtypes of 16 bits"
             : "";
}

Findings the_log_names_the_hook(const Hooked&, const History& h) {
  return equal("A replica that keeps a log must name its hook there",
               {{.row = h.row({0, kWrapped}, "named hooks"), .expected = {int64_values({1})}}});
}

TensorValue nothing(const Hooked& c) {
  return recorded(torch::empty({0}, at::kDouble), dtype_of(c));
}

Row held_after(const Hooked& c, const History& h, int step, size_t parameter) {
  auto row = h.row({step, kAfterBackward}, name_of(parameter));
  size_t first = 0;
  while (!has_input(c, step, static_cast<int>(first))) ++first;
  for (size_t rank = 0; rank < row.by_rank.size(); ++rank)
    if (!has_input(c, step, static_cast<int>(rank))) row.by_rank[rank] = row.by_rank[first];
  return row;
}

}  // namespace lockstep::scenarios::hooks
