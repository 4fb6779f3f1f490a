// The demonstration "reference": a training of a small network on ranks, and on one process. (Its
// namespace is not `reference`, which is that of the expected numbers.)
#pragma once

#include "demos/make.h"
#include "harness/base/dtype.h"
#include "reference/rounding.h"

#include <array>

namespace lockstep::demos::one_process {

inline constexpr int kSamples = 8;  // of the batch that the ranks share, or of each

enum class BatchSize { split, per_rank };

enum class Rate { same, linear };

struct Settings {
  int world = 2;
  int steps = 8;
  BatchSize batch = BatchSize::split;
  Rate rate = Rate::same;
  Dtype dtype = Dtype::float32;
  auto operator<=>(const Settings&) const = default;
  static constexpr auto fields() {
    return std::tuple{
        field("world", &Settings::world, between(2, 4)),
        field("steps", &Settings::steps, between(1, 16)), field("batch", &Settings::batch),
        field("rate", &Settings::rate),
        field("dtype", &Settings::dtype, one_of<Dtype::float32, Dtype::float64, Dtype::bfloat16>)};
  }
};
using TrainingCase = Staged<Settings>;

inline constexpr double kRate = 0.25;
inline constexpr size_t kParameters = 4;
inline constexpr std::array<const char*, kParameters> kNames{"fc1.weight", "fc1.bias", "fc2.weight",
                                                             "fc2.bias"};
inline constexpr const char *kStart = "start", *kUpdated = "updated", *kAlone = "alone",
                            *kLoss = "loss";

// Samples of all ranks, and of one.
int sample_count(const TrainingCase& c);
int samples_of_rank(const TrainingCase& c);

// The learning rate of the ranks.
double rate_of(const TrainingCase& c);

// float64 [samples, 3] and [samples, 1]: multiples of an eighth, which every dtype holds.
struct Batch {
  at::Tensor inputs, targets;
};
Batch whole_batch(const TrainingCase& c);
Batch batch_of(const TrainingCase& c, int rank);

// The parameters with which a rank begins before they are made equal; likewise.
std::array<at::Tensor, kParameters> initial(int rank);

using Parameters = std::array<reference::Rounded, kParameters>;

// The parameters before each step and after the last one, of a training in which every rank begins
// with rank 0's, and an update subtracts `rate` times the average of the ranks' gradients; with the
// bound of what the dtype rounds away. Since all ranks have equally many samples, this average is
// the gradient of one process on the whole batch.
std::vector<Parameters> trajectory(const TrainingCase& c, double rate);

// Half the squared error, averaged over samples.
double loss_of(const Parameters& parameters, const Batch& batch);

DemoStory show(const TrainingCase& c, const History& h);

}  // namespace lockstep::demos::one_process
