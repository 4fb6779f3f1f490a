#include "scenarios/cases/tensors.h"

#include <torch/torch.h>

#include <cmath>
#include <dlfcn.h>
#include <limits>

namespace lockstep::scenarios {

namespace {

template <class Value>
at::Tensor counted(Counter at, at::IntArrayRef shape, const Value& value) {
  auto values = torch::empty(shape, at::kDouble);
  auto* data = values.data_ptr<double>();
  for (int64_t i = 0; i < values.numel(); ++i, ++at.index) data[i] = value(at);
  return values;
}

// Multiples of `divisor` times its rounded reciprocal are off by less than what rounding removes
// only if the reciprocal is off by less than half of that.
template <class Float>
bool share_rounds(int divisor) {
  const Float reciprocal = 1 / static_cast<Float>(divisor);
  const Float off = std::fma(reciprocal, static_cast<Float>(divisor), Float{-1});
  return std::abs(off) > std::numeric_limits<Float>::epsilon() / 4;
}

}  // namespace

std::string why_shares_round(const WorldSpec& world) {
  return share_rounds<float>(world.size) || share_rounds<double>(world.size)
             ? "a multiple of " + std::to_string(world.size) + " times the rounded 1/" +
                   std::to_string(world.size) + " may not be a whole number"
             : "";
}

int precision_bits(Dtype dtype) {
  return std::max(traits_of(dtype).precision_bits, 24);
}

at::Tensor whole_numbers(Counter first, int64_t most, at::IntArrayRef shape) {
  return counted(first, shape,
                 [most](const Counter& at) { return static_cast<double>(whole_at(at, most)); });
}

at::Tensor real_numbers(Counter first, at::IntArrayRef shape) {
  return counted(first, shape, [](const Counter& at) { return real_at(at); });
}

TensorValue recorded(const at::Tensor& value, at::ScalarType dtype) {
  return value_of(value.to(dtype));
}

Written written(const reference::Rounded& right, at::ScalarType dtype) {
  const auto value = right.value.to(dtype);
  const auto rounded_away = (value.to(at::kDouble) - right.value).abs();
  return {value_of(value), value_of(right.error + rounded_away)};
}

at::Tensor gradient_or_nothing(const at::Tensor& leaf) {
  return leaf.grad().defined() ? leaf.grad()
                               : torch::empty({0}, leaf.options().requires_grad(false));
}

IntraOpThreads::IntraOpThreads(int count) : before_(at::get_num_threads()) {
  if (count != before_) at::set_num_threads(count);
}

// OpenMP keeps the threads of a parallel region for the next one; here they would count as left
// behind. LibTorch brings its own OpenMP, under a name that changes from build to build.
IntraOpThreads::~IntraOpThreads() {
  if (at::get_num_threads() == before_) return;
  at::set_num_threads(before_);
  using Pause = int(int kind);
  constexpr int kHard = 2;
  if (auto* const pause = reinterpret_cast<Pause*>(::dlsym(RTLD_DEFAULT, "omp_pause_resource_all")))
    pause(kHard);
}

Findings gradients_are_defined(const std::vector<Row>& gradients) {
  for (const auto& row : gradients)
    for (size_t rank = 0; rank < row.by_rank.size(); ++rank)
      if (row.by_rank[rank].bytes.empty())
        return {{"A backward must leave a gradient of every parameter", "no_gradient",
                 FindingPlace(row.at, row.name),
                 row.name + ": rank " + std::to_string(rank) + " has no gradient, at step " +
                     std::to_string(row.at.step) + ", " + row.at.phase}};
  return {};
}

}  // namespace lockstep::scenarios
