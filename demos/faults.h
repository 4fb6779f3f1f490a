// The demonstration of faults: small data-parallel trainings, each with one mistake, and the
// properties that judge each of them.
#pragma once

#include "demos/make.h"

#include <torch/torch.h>

namespace lockstep::demos::faults {

inline constexpr int kSteps = 2;

struct Settings {
  int world = 2;
  std::vector<int> samples{3, 1};
  bool buffers = true;
  auto operator<=>(const Settings&) const = default;
  static constexpr auto fields() {
    return std::tuple{field("world", &Settings::world, between(2, 4)),
                      field("samples", &Settings::samples, at_most(4, between(1, 3))),
                      field("buffers", &Settings::buffers)};
  }
};
using FaultCase = Staged<Settings>;

inline constexpr char kNotDivided[] = "not_divided", kDividedTwice[] = "divided_twice",
                      kNotReduced[] = "not_reduced", kLeftOut[] = "one_left_out",
                      kOwnStart[] = "own_start", kOwnRate[] = "own_rate",
                      kSameSamples[] = "same_samples", kUnweighted[] = "unweighted",
                      kLate[] = "one_step_late", kBuffersKept[] = "buffers_kept",
                      kReducedTwice[] = "reduced_twice";
std::vector<DemoMistake> all_faults();

// The phase of the records of the program in which no fault is planted but that of --wrong.
inline constexpr char kThis[] = "this program";
inline constexpr const char *kSamples = "samples", *kGradient = "gradient", *kWeights = "weights",
                            *kBuffer = "buffer";

int samples_of(const FaultCase& c, int rank);
int whole_batch(const FaultCase& c);  // samples of a step
int first_sample(const FaultCase& c, int rank, int step);

// The factor of a rank's loss that makes the average over ranks that of the whole batch.
double weight_of(const FaultCase& c, int rank);

// True if the settings are such that a fault changes nothing.
bool is_hidden(const FaultCase& c, const std::string& fault);

// A property of a training, by the column that shows it. Nothing where it does not apply.
struct Property {
  const char* name;
  std::optional<Findings> (*judge)(const FaultCase&, const History&, const std::string& program);
};
const std::vector<Property>& properties();

DemoStory show(const FaultCase& c, const History& h);

}  // namespace lockstep::demos::faults
