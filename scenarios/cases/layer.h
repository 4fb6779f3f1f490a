// The shape Layer: one layer that couples the samples of a batch, and the batches it sees.
#pragma once

#include "harness/cases/scenario.h"
#include "harness/worlds/options.h"
#include "scenarios/cases/words.h"

#include <ATen/core/Tensor.h>

namespace lockstep::scenarios {

enum class Upstream { all, none, some };

enum class LayerLayout { contiguous, channels_last, strided };

enum class FrozenOfLayer { none, weight, bias, both };

struct Layer {
  WorldSpec world;
  int steps = 1;
  NormOptions norm;
  std::vector<int> spatial;  // sizes after the channels; empty: (samples, channels)
  // Every other channel, the first one among them, has an average of about 2^average_log2, far from
  // zero and from its variance; 0: none has.
  int average_log2 = 0;
  // Distances from the channel's average are multiplied by 2^spread_log2: far below 0, eps decides
  // the deviation.
  int spread_log2 = 0;
  std::vector<int> samples;  // rank r's batch holds samples[r], read cyclically; empty: two each
  // The ranks whose input requires a gradient, as the output of a layer that learns does: all,
  // none, or `some`, the even ranks. Without weight and bias that learn the other ranks would have
  // no backward, so `some` is then `all`.
  Upstream upstream = Upstream::all;
  FrozenOfLayer frozen =
      FrozenOfLayer::none;       // of weight and bias; where both are, none of them learns
  Dtype dtype = Dtype::float32;  // of the input; parameters of a half one are float32,
  bool half_parameters = false;  // or half as well
  int threads = 1;               // that share the work of an operation
  // channels_last where there are two or three spatial sizes, else contiguous; strided: every
  // other column of something wider.
  LayerLayout layout = LayerLayout::contiguous, gradient_layout = LayerLayout::contiguous;
  // exact: small whole numbers; real: any numbers, about as large.
  Values values = Values::exact;
  uint64_t seed = 0;
  auto operator<=>(const Layer&) const = default;
  static constexpr auto fields() {
    return std::tuple{field("world", &Layer::world),
                      field("steps", &Layer::steps, between(1, 100)),
                      field("norm", &Layer::norm),
                      field("spatial", &Layer::spatial, at_most(4, between(0, 64))),
                      field("average_log2", &Layer::average_log2, between(0, 15), Cost::numbers),
                      field("spread_log2", &Layer::spread_log2, between(-14, 0), Cost::numbers),
                      field("samples", &Layer::samples, between(0, 1000)),
                      field("upstream", &Layer::upstream),
                      field("frozen", &Layer::frozen),
                      field("half_parameters", &Layer::half_parameters, {}, Cost::numbers),
                      field("threads", &Layer::threads, between(1, 4)),
                      field("dtype", &Layer::dtype, kFloating, Cost::numbers),
                      field("layout", &Layer::layout),
                      field("gradient_layout", &Layer::gradient_layout),
                      field("values", &Layer::values, {}, Cost::numbers),
                      field("seed", &Layer::seed, {}, Cost::numbers)};
  }
};

int64_t samples_of(const Layer& c, int rank);
int64_t values_per_channel(const Layer& c);  // of all ranks, in one step

// A precondition: one value a channel has no variance.
std::string why_no_variance(const Layer& c);

bool needs_gradient(const Layer& c, int rank);

bool learns(const Layer& c, const char* parameter);  // "weight" or "bias"

at::ScalarType dtype_of(const Layer& c);
at::ScalarType parameter_dtype_of(const Layer& c);

// Rank `rank`'s batch of a step, [samples, channels, ...], and the gradient of its loss by the
// output, in the dtype and layout of the case. Ranks and channels differ in their average, and the
// variance is about 4 or 4/3 where spread_log2 is 0, before a half dtype rounds values far from
// zero.
at::Tensor input_of(const Layer& c, int step, int rank);
at::Tensor cotangent_of(const Layer& c, int step, int rank);

// The initial state of every rank's layer: one value per channel, weights of at least 1/2 and
// running variances of at least 1; and the number of batches it has counted.
struct LayerState {
  at::Tensor weight, bias, running_mean, running_var;  // in the parameters' dtype
  int64_t batches = 0;
};
LayerState start_of(const Layer& c);

}  // namespace lockstep::scenarios

namespace lockstep {

// Made once: drawing, shrinking and reading a case take a compiler ten seconds.
extern template Scenario scenario<scenarios::Layer>(Spec<scenarios::Layer> spec);

}  // namespace lockstep
