// How a SyncBatchNorm may go wrong: by which quantities its ranks normalise. Each way is the
// definition with one quantity taken from elsewhere.
#pragma once

#include "harness/core/diagnose.h"
#include "scenarios/cases/layer.h"

#include <functional>

namespace lockstep::scenarios::sync_batch_norm {

// One rank's batch of a step, [values, channels].
struct Own {
  at::Tensor input, cotangent;
  double count = 0;
  at::Tensor average, squared;  // squared distances from its own average, summed
};

enum class Eps { under_the_root, beside_the_root, missing };

// The quantities by which a rank normalises, differentiates and keeps its statistics.
struct Used {
  at::Tensor average, variance;  // forward, and statistics
  at::Tensor sum, product;       // of the cotangents, and times distance
  double divisor = 1;            // of both
  at::Tensor running_average, running_variance;
  bool momentum_is_reversed = false;
  Eps eps = Eps::under_the_root;
  // For the gradients of bias and weight; undefined: the rank's own.
  at::Tensor affine_sum, affine_product;
};

std::vector<Own> all_of(const Layer& c, int step);

// From all ranks and a rank's own, what that rank would have used.
using Way = std::function<Used(const std::vector<Own>& all, const Own& own)>;

struct WrongWay {
  Diagnosis diagnosis;
  Way way;
  // Running statistics may come of it too and say nothing of how the batch was normalised.
  bool shows_in_running_statistics = true;
};
std::vector<WrongWay> wrong_ways();

}  // namespace lockstep::scenarios::sync_batch_norm
