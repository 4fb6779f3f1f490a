// The shape Evaluated: rounds of a step of training and an evaluation, and what is right in each.
#pragma once

#include "harness/base/case.h"
#include "harness/worlds/subject.h"

namespace lockstep::scenarios::evaluation {

struct Evaluated {
  WorldSpec world;
  int rounds = 1;
  int64_t length = 1;  // samples of the dataset
  int64_t batch_size = 1;
  bool pad = true;
  bool drop_last = false;
  bool shuffle = false;
  bool with_gradients = false;  // forwards of the evaluation: inside no_sync, in place of no_grad
  uint64_t seed = 0;
  auto operator<=>(const Evaluated&) const = default;
  static constexpr auto fields() {
    return std::tuple{field("world", &Evaluated::world),
                      field("rounds", &Evaluated::rounds, between(1, 10)),
                      field("length", &Evaluated::length, between(1, 10'000)),
                      field("batch_size", &Evaluated::batch_size, between(1, 1000)),
                      field("pad", &Evaluated::pad),
                      field("drop_last", &Evaluated::drop_last),
                      field("shuffle", &Evaluated::shuffle),
                      field("with_gradients", &Evaluated::with_gradients),
                      field("seed", &Evaluated::seed, {}, Cost::numbers)};
  }
};

struct Totals {
  int64_t samples = 0, right = 0;
  bool operator==(const Totals&) const = default;
};

// The gradient of a step: a multiple of the world's size, so that the average does not round.
int64_t gradient_of(const Evaluated& c, int round, int rank);

// The weight of the model after the step of a round.
int64_t weight_after(const Evaluated& c, int round);

// The samples that a rank's sampler draws in a round.
std::vector<int64_t> samples_of(const Evaluated& c, int round, int rank);
int64_t input_of(const Evaluated& c, int64_t sample);

// The samples of which the model's output, a whole number, is of the right class.
Totals counted(const Evaluated& c, const std::vector<int64_t>& samples, const at::Tensor& outputs);
Totals expected_of(const Evaluated& c, int round, const std::vector<int64_t>& samples);

double accuracy(const Totals& totals);

// y = w x, whose remainder is the class that it predicts. Its parameter is "w".
std::shared_ptr<Model> scaled();

}  // namespace lockstep::scenarios::evaluation
