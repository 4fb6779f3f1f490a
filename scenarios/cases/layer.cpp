#include "scenarios/cases/layer.h"

#include "scenarios/cases/tensors.h"

#include <torch/torch.h>

#include <cmath>
#include <numeric>

namespace lockstep::scenarios {

namespace {

constexpr int64_t kMost = 3;
constexpr int64_t kBatchesBefore = 3;

// The distance between the counters of a layer's parameters, so large that none of them overlap.
constexpr uint64_t kCounterStride = uint64_t{1} << 32;

at::Tensor drawn(const Layer& c, const Counter& at, int64_t most, at::IntArrayRef shape) {
  return c.values == Values::real ? real_numbers(at, shape) : whole_numbers(at, most, shape);
}

std::vector<int64_t> shape_of(const Layer& c, int rank) {
  std::vector<int64_t> shape{samples_of(c, rank), c.norm.channels};
  shape.insert(shape.end(), c.spatial.begin(), c.spatial.end());
  return shape;
}

// The same values in another memory layout.
at::Tensor laid_out(const at::Tensor& values, LayerLayout layout) {
  if (layout == LayerLayout::channels_last && values.dim() == 4)
    return values.contiguous(at::MemoryFormat::ChannelsLast);
  if (layout == LayerLayout::channels_last && values.dim() == 5)
    return values.contiguous(at::MemoryFormat::ChannelsLast3d);
  if (layout == LayerLayout::strided) return at::stack({values, values + 1}, -1).select(-1, 0);
  return values;
}

// The average of each channel: whole numbers, of which each differs from the next.
at::Tensor averages_of(const Layer& c) {
  const auto averages = torch::arange(c.norm.channels, at::kDouble);
  if (c.average_log2 > 0)
    averages.slice(0, 0, c.norm.channels, /*step=*/2) += std::ldexp(1.0, c.average_log2);
  return averages;
}

Counter place(const Layer& c, Stream stream, int step, int rank) {
  return {.seed = c.seed,
          .stream = stream,
          .rank = static_cast<uint64_t>(rank),
          .step = static_cast<uint64_t>(step)};
}

}  // namespace

int64_t samples_of(const Layer& c, int rank) {
  return c.samples.empty() ? 2 : c.samples[static_cast<size_t>(rank) % c.samples.size()];
}

int64_t values_per_channel(const Layer& c) {
  int64_t samples = 0;
  for (int rank = 0; rank < c.world.size; ++rank) samples += samples_of(c, rank);
  return std::accumulate(c.spatial.begin(), c.spatial.end(), samples,
                         [](int64_t product, int size) { return product * size; });
}

std::string why_no_variance(const Layer& c) {
  return values_per_channel(c) == 1 ? "one value a channel has no variance" : "";
}

bool needs_gradient(const Layer& c, int rank) {
  if (c.upstream == Upstream::some && (learns(c, "weight") || learns(c, "bias")))
    return rank % 2 == 0;
  return c.upstream != Upstream::none;
}

bool learns(const Layer& c, const char* parameter) {
  return c.norm.affine && c.frozen != FrozenOfLayer::both && word_of(c.frozen) != parameter;
}

at::ScalarType dtype_of(const Layer& c) {
  return scalar_type(c.dtype);
}

at::ScalarType parameter_dtype_of(const Layer& c) {
  return c.dtype == Dtype::float64 || c.half_parameters ? dtype_of(c) : at::kFloat;
}

at::Tensor input_of(const Layer& c, int step, int rank) {
  auto values = drawn(c, place(c, Stream::input, step, rank), kMost, shape_of(c, rank));
  if (c.values == Values::real) values = values * 2;
  std::vector<int64_t> broadcast_shape(static_cast<size_t>(values.dim()), 1);
  broadcast_shape[1] = c.norm.channels;
  values = (values + rank) * std::ldexp(1.0, c.spread_log2) + averages_of(c).view(broadcast_shape);
  return laid_out(values.to(dtype_of(c)), c.layout);
}

at::Tensor cotangent_of(const Layer& c, int step, int rank) {
  const auto values = drawn(c, place(c, Stream::cotangent, step, rank), kMost, shape_of(c, rank));
  return laid_out(values.to(dtype_of(c)), c.gradient_layout);
}

LayerState start_of(const Layer& c) {
  const auto by_channel = [&](Stream stream, uint64_t which, int64_t most) {
    auto at = place(c, stream, 0, 0);
    at.index = which * kCounterStride;
    return drawn(c, at, most, {c.norm.channels}).to(parameter_dtype_of(c));
  };
  return {.weight = by_channel(Stream::parameter, 0, 1) + (c.values == Values::real ? 1.5 : 2.0),
          .bias = by_channel(Stream::parameter, 1, 2),
          .running_mean = by_channel(Stream::buffer, 0, 2),
          .running_var = by_channel(Stream::buffer, 1, 2).abs() + 1,
          .batches = kBatchesBefore};
}

}  // namespace lockstep::scenarios

namespace lockstep {

template Scenario scenario<scenarios::Layer>(Spec<scenarios::Layer> spec);

}  // namespace lockstep
