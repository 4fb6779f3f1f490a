// Wrong variants of SyncBatchNorm: the quantities by which their ranks normalise. Each is the
// definition with one quantity replaced.
#pragma once

#include "harness/verdict/diagnose.h"
#include "scenarios/cases/layer.h"

#include <functional>

namespace lockstep::scenarios::sync_batch_norm {

// One rank's batch of a step, [values, channels].
struct RankBatch {
  at::Tensor input, cotangent;
  double count = 0;
  at::Tensor average, squared;  // squared distances from its own average, summed
};

// The weight of a new batch in the running statistics: momentum's, 1 - momentum, that of an average
// over all batches, or of one that counts a batch after it was weighed.
enum class Weight { given, reversed, cumulative, one_batch_behind };

enum class Eps { under_the_root, beside_the_root, missing };

enum class Deviation { of_all, average_of_inverses };

// The quantities by which a rank normalises, differentiates and keeps its statistics.
struct Quantities {
  at::Tensor average, variance;  // forward, and statistics
  at::Tensor sum, product;       // of the cotangents, and of the cotangents times distance
  double divisor = 1;            // of both
  at::Tensor running_average, running_variance;
  Weight weight = Weight::given;
  Eps eps = Eps::under_the_root;
  Deviation deviation = Deviation::of_all;
  std::vector<at::Tensor> variances = {};  // of each rank, for their average
  // For the gradients of bias and weight; undefined: the rank's own.
  at::Tensor affine_sum, affine_product;
};

std::vector<RankBatch> batches_of(const Layer& c, int step);

// Computes a rank's quantities from all ranks' batches and its own.
using Variant = std::function<Quantities(const std::vector<RankBatch>& all, const RankBatch& own)>;

struct WrongVariant {
  Diagnosis diagnosis;
  Variant variant;
  // False if running statistics do not show by what the batch was normalised.
  bool shows_in_running_statistics = true;
};
std::vector<WrongVariant> wrong_variants();

}  // namespace lockstep::scenarios::sync_batch_norm
