// What a Layer case must show, and what known mistakes would show instead.
#pragma once

#include "harness/core/compare.h"
#include "scenarios/cases/layer.h"

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

// Throws Refused where rounding decides the standard deviation.
std::vector<Step> expected_steps(const Layer& c);

// A mistake, and what it would have left, step by step. Ranks without values may leave NaN.
struct Mistake {
  Diagnosis diagnosis;
  std::vector<Step> steps;
};
std::vector<Mistake> mistakes(const Layer& c);

}  // namespace lockstep::scenarios::sync_batch_norm
