// The shape Averaged: parameters with prescribed gradients, which each rank trains and all average.
#pragma once

#include "harness/cases/scenario.h"
#include "harness/worlds/options.h"
#include "reference/averaging.h"
#include "scenarios/cases/parameters.h"
#include "scenarios/cases/words.h"

#include <ATen/core/Tensor.h>

namespace lockstep::scenarios::averaging {

enum class Rule { periodic, hierarchical };

enum class Gradients { alone, post_local_sgd };

// Ranks begin with parameters of their own. A step subtracts each parameter's gradient, which is
// prescribed, on each rank and in each step another one; then the rule averages.
struct Averaged {
  WorldSpec world;
  int steps = 1;
  Rule rule = Rule::periodic;
  int64_t period = 1;  // of an average over all ranks
  int64_t warmup_steps = 0;
  // The levels of the rule `hierarchical`, below that of all ranks. A level is left out if its
  // period is not longer or its size is no multiple of the one before, or no divisor of the
  // world's.
  std::vector<AveragingLevelSpec> levels;
  // alone: nothing averages gradients; post_local_sgd: all ranks, in the first `start` steps,
  // then groups of the largest size that divides the world and is at most `subgroup_size`; 0: none.
  Gradients gradients = Gradients::alone;
  int64_t start = 0;
  int subgroup_size = 0;
  int64_t bucket_cap_bytes = 0;
  bool through_optimizer = true;
  AveragedThing given = AveragedThing::parameters;  // to the averager, where the program calls it
  bool has_momentum = false;  // of 1: a step subtracts the sum of a parameter's gradients so far
  int restart = 0;         // all objects are saved, made anew and loaded before this step; 0: never
  std::vector<int> sizes;  // elements of each parameter; empty: one of one element
  std::vector<Dtype> dtypes;  // of the parameters, read cyclically; empty: float64
  int lacking = 0;  // so many of three parameters have no gradient, other ones in each step
  uint64_t seed = 0;
  auto operator<=>(const Averaged&) const = default;
  static constexpr auto fields() {
    return std::tuple{
        field("world", &Averaged::world),
        field("steps", &Averaged::steps, between(1, 30)),
        field("rule", &Averaged::rule),
        field("period", &Averaged::period, between(1, 1000)),
        field("warmup_steps", &Averaged::warmup_steps, between(0, 1000)),
        field("levels", &Averaged::levels),
        field("gradients", &Averaged::gradients),
        field("start", &Averaged::start, between(0, 1000)),
        field("subgroup_size", &Averaged::subgroup_size, between(0, 1024)),
        field("bucket_cap_bytes", &Averaged::bucket_cap_bytes, at_least(0)),
        field("through_optimizer", &Averaged::through_optimizer),
        field("given", &Averaged::given),
        field("has_momentum", &Averaged::has_momentum),
        field("restart", &Averaged::restart, between(0, 30)),
        field("sizes", &Averaged::sizes, between(1, 4096)),
        field("dtypes", &Averaged::dtypes, one_of<Dtype::float64, Dtype::float32>, Cost::numbers),
        field("lacking", &Averaged::lacking, between(0, 2)),
        field("seed", &Averaged::seed, {}, Cost::numbers)};
  }
};

std::string name_of(size_t parameter);  // "w0"
at::ScalarType dtype_of(const Averaged& c, size_t parameter);

// At least one parameter has a gradient in each step.
bool has_gradient(const Averaged& c, int step, size_t parameter);

bool averages_gradients(const Averaged& c);
int subgroup_size(const Averaged& c);  // 0 or a divisor of the world's size

// The levels that count, the last of all ranks; one where the rule is periodic.
std::vector<AveragingLevelSpec> levels_of(const Averaged& c);

// Whole numbers, multiples of so high a power of the world size that no average rounds. float64.
at::Tensor start_of(const Averaged& c, int rank, size_t parameter);
at::Tensor gradient_of(const Averaged& c, int step, int rank, size_t parameter);

// A bound of every number that occurs.
double largest_number(const Averaged& c);

void program(const Averaged& c, RankContext& here);

}  // namespace lockstep::scenarios::averaging
