// What a Layer case must show, and what known mistakes would show instead.
#pragma once

#include "harness/core/compare.h"
#include "harness/world/subject.h"
#include "reference/batch_norm.h"
#include "scenarios/cases/layer.h"

#include <functional>
#include <map>

namespace lockstep::scenarios::sync_batch_norm {

// A value for each rank, with its bound; bounds are empty where the value is a count.
struct ByRank {
  std::vector<TensorValue> values, bounds;
};

// By the name under which the program records it; kStatistics without those of a layer that keeps
// none, gradients of weight and bias without those of one that has none.
using Step = std::map<std::string, ByRank>;

inline constexpr const char* kOutput = "output";
inline constexpr const char* kInputGradient = "input gradient";
inline constexpr const char* kWeightGradient = "norm.weight gradient";
inline constexpr const char* kBiasGradient = "norm.bias gradient";
inline constexpr const char* kRunningMean = "norm.running_mean";
inline constexpr const char* kRunningVar = "norm.running_var";
inline constexpr const char* kBatches = "norm.num_batches_tracked";

// What a rank without an input gradient records in its place.
TensorValue no_gradient(const Layer& c);

// Gives a layer of c.norm, built by a subject, the state that every rank's starts from.
void set_state(Model& model, const Layer& c);

// The layer in the reference's words: weight, bias and eps.
reference::BatchNorm definition_of(const Layer& c);

// Every rank's batch of a step, and another way to split the same batches over the ranks.
std::vector<reference::BatchPart> parts_of(const Layer& c, int step);
using PartsOfStep = std::function<std::vector<reference::BatchPart>(int step)>;

// One rank's value more, as it is written down in `dtype`, which rounds the expected one as well.
void add(ByRank& to, const reference::Rounded& right, at::ScalarType dtype);

// Throws Refused where rounding decides the standard deviation.
std::vector<Step> expected_steps(const Layer& c);
std::vector<Step> expected_steps(const Layer& c, const PartsOfStep& parts);

// A mistake, and what it would have left, step by step. Ranks without values may leave NaN.
struct Mistake {
  Diagnosis diagnosis;
  std::vector<Step> steps;
};
std::vector<Mistake> mistakes(const Layer& c);

}  // namespace lockstep::scenarios::sync_batch_norm
