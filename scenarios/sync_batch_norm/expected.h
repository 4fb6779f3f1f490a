// The expected values of a Layer case, and the values that known mistakes would give.
#pragma once

#include "harness/verdict/compare.h"
#include "harness/worlds/subject.h"
#include "reference/batch_norm.h"
#include "scenarios/cases/layer.h"

#include <functional>
#include <map>

namespace lockstep::scenarios::sync_batch_norm {

// A value for each rank, with its bound; bounds are empty where the value is a count.
struct ByRank {
  std::vector<TensorValue> values, bounds;
};

// The expected values of a step by the names under which the program records them; without running
// statistics if the layer keeps none, without gradients of weight and bias if it has none.
using Step = std::map<std::string, ByRank>;

inline constexpr const char* kOutput = "output";
inline constexpr const char* kInputGradient = "input gradient";
inline constexpr const char* kWeightGradient = "norm.weight gradient";
inline constexpr const char* kBiasGradient = "norm.bias gradient";
inline constexpr const char* kRunningMean = "norm.running_mean";
inline constexpr const char* kRunningVar = "norm.running_var";
inline constexpr const char* kBatches = "norm.num_batches_tracked";

// The record of a rank without an input gradient.
TensorValue no_gradient(const Layer& c);

// Sets a layer of c.norm, built by a subject, to the initial state of every rank.
void set_state(Model& model, const Layer& c);

// The layer for the reference: weight, bias and eps.
reference::BatchNorm definition_of(const Layer& c);

// Every rank's batch of a step, and another way to split the same batches over the ranks.
std::vector<reference::BatchPart> parts_of(const Layer& c, int step);
using PartsOfStep = std::function<std::vector<reference::BatchPart>(int step)>;

// Appends one rank's expected value and its bound, both rounded to `dtype`.
void add(ByRank& to, const reference::Rounded& right, at::ScalarType dtype);

// Records that this rank's layer is computed by CUDA's kernels, which sum a backward pass in the
// input's dtype: docs/numerics.md, "Batch normalisation". Records nothing elsewhere.
void record_kernels(RankContext& here);

// The precisions in which the ranks' layers computed, and on a CPU.
reference::Computing computing_of(const Layer& c, const History& h);
reference::Computing computing_of(const Layer& c);

// Throws Refused where rounding decides the standard deviation.
std::vector<Step> expected_steps(const Layer& c);
std::vector<Step> expected_steps(const Layer& c, reference::Computing computing);
std::vector<Step> expected_steps(const Layer& c, reference::Computing computing,
                                 const PartsOfStep& parts);

// A mistake, and the values it would give, step by step. Ranks without values may give NaN.
struct Mistake {
  Diagnosis diagnosis;
  std::vector<Step> steps;
};
std::vector<Mistake> mistakes(const Layer& c);

}  // namespace lockstep::scenarios::sync_batch_norm
