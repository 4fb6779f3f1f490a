#include "scenarios/hooks/case.h"

#include "harness/base/values.h"
#include "harness/rank/rank_context.h"
#include "harness/worlds/subject.h"
#include "scenarios/cases/tensors.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>

namespace lockstep::scenarios::hooks {

namespace {

constexpr int64_t kLargestAverage = 4;  // of exact gradients, before the sum

std::vector<int64_t> shape_of(const Size& size) {
  if (size.columns == 0) return {size.rows};
  if (has_several_axes(size)) return {size.rows, size.columns / size.depth, size.depth};
  return {size.rows, size.columns};
}

int64_t numel(const Size& size) {
  return static_cast<int64_t>(size.rows) * std::max(size.columns, 1);
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

// forward takes the gradients of all parameters, one after the other.
class Prescribed : public Model {
 public:
  explicit Prescribed(const Hooked& c) {
    for (size_t p = 0; p < parameter_count(c); ++p)
      weights_.push_back(register_parameter(
          name_of(p), torch::ones(shape_of(size_of(c, p)), torch::dtype(dtype_of(c)))));
  }

  at::Tensor forward(const at::Tensor& input) override {
    at::Tensor loss;
    int64_t offset = 0;
    for (const auto& weight : weights_) {
      const auto gradient = input.narrow(0, offset, weight.numel()).view(weight.sizes());
      const auto term = (weight * gradient).sum();
      loss = loss.defined() ? loss + term : term;
      offset += weight.numel();
    }
    return loss;
  }

 private:
  std::vector<at::Tensor> weights_;
};

}  // namespace

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
  const auto sent = sent_dtype(c);
  if (!divides_first || c.dtype == Dtype::float64 || sent == Dtype::float64) return kAlways;
  return sent == Dtype::float16 || c.dtype == Dtype::float16 ? kHalf : kSingle;
}

bool compresses(HookKind kind) {
  return kind == HookKind::fp16_compress || kind == HookKind::bf16_compress;
}

at::Tensor gradient_of(const Hooked& c, int step, int rank, size_t parameter) {
  const auto size = size_of(c, parameter);
  const auto shape = shape_of(size);
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
                          ? whole_numbers(first, kLargestAverage, shape) * c.world.size
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

void program(const Hooked& c, RankContext& here) {
  const auto model = std::make_shared<Prescribed>(c);
  auto options = c.options;
  options.hook = c.hook;
  auto replica = wrap(here, model, options);
  for (int step = 0; step < c.steps; ++step) {
    if (step > 0 && step == c.reload) {
      const auto saved = replica->save_hook();
      replica.reset();
      replica = wrap(here, model, options);
      replica->load_hook(saved);
    }
    model->zero_grad();
    std::vector<at::Tensor> gradients;
    for (size_t p = 0; p < parameter_count(c); ++p)
      gradients.push_back(gradient_of(c, step, here.rank(), p).view({-1}));
    here.enter(step, "forward");
    const auto loss = replica->forward(at::cat(gradients));
    here.enter(step, "backward");
    replica->backward(loss);
    here.enter(step, "after backward");
    for (const auto& parameter : model->named_parameters())
      here.record(parameter.key(), gradient_or_nothing(parameter.value()));
    if (c.hook.kind != HookKind::power_sgd) continue;
    here.enter(step, "left out");
    for (const auto& parameter : model->named_parameters()) {
      const auto left_out = replica->left_out(parameter.value());
      if (left_out.defined()) here.record(parameter.key(), left_out);
    }
  }
}

}  // namespace lockstep::scenarios::hooks
