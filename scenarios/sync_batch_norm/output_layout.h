// How SyncBatchNorm lays out its output in memory; docs/semantics.md 3.
#pragma once

#include "harness/history/history.h"
#include "harness/verdict/verdict.h"
#include "scenarios/cases/layer.h"

#include <ATen/ATen.h>

#include <vector>

namespace lockstep::scenarios::sync_batch_norm {

constexpr const char* kOutputLayout = "output is contiguous, channels last";

// Whether a tensor is contiguous, and whether its channels are last in memory. Both are true where
// a size of 1 leaves it open.
std::vector<int64_t> layout_of(const at::Tensor& tensor);

// Returns that of each rank's output, in every step: channels are last where the input's are; any
// other is contiguous.
std::vector<TensorValue> expected_layouts(const Layer& c);

Findings outputs_are_laid_out_like_inputs(const Layer& c, const History& h);

}  // namespace lockstep::scenarios::sync_batch_norm
