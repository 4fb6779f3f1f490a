// The shape Stateful: a module with buffers, and the forwards it goes through.
#pragma once

#include "harness/cases/scenario.h"
#include "harness/worlds/options.h"
#include "scenarios/cases/words.h"

namespace lockstep::scenarios {

enum class ForwardKind { synced, held, no_sync, no_grad, eval };

struct Stateful {
  WorldSpec world;
  // In order: `synced` in training and synchronised, `held` the same with its backward delayed
  // until the next one's, inside no_sync, without gradients, or in evaluation mode; empty: one
  // `synced`. `no_grad` is followed by no backward.
  std::vector<ForwardKind> forwards;
  std::vector<int> samples;  // rank r's batch holds samples[r]; empty: two each
  bool reassigned = false;  // a forward replaces its buffers by new tensors instead of writing them
  WrapOptions options;
  Dtype dtype = Dtype::float32;
  // exact: zeros on even ranks and ones on odd; real: any numbers between -1 and 1.
  Values values = Values::exact;
  uint64_t seed = 0;
  auto operator<=>(const Stateful&) const = default;
  std::string unmet_precondition() const;
  static constexpr auto fields() {
    return std::tuple{field("world", &Stateful::world),
                      field("forwards", &Stateful::forwards),
                      field("samples", &Stateful::samples, between(1, 64)),
                      field("reassigned", &Stateful::reassigned),
                      field("options", &Stateful::options),
                      field("dtype", &Stateful::dtype, kSingleOrDouble, Cost::numbers),
                      field("values", &Stateful::values, {}, Cost::numbers),
                      field("seed", &Stateful::seed, {}, Cost::numbers)};
  }
};

std::vector<ForwardKind> forwards_of(const Stateful& c);
int64_t samples_of(const Stateful& c, int rank);

// True if each forward begins with rank 0's buffers. The previous forward decides: it must have had
// gradients and been outside no_sync; the first forward begins with them. docs/semantics.md 1.3.
std::vector<bool> synchronised(const Stateful& c);

}  // namespace lockstep::scenarios

namespace lockstep {

// Made once: drawing, shrinking and reading a case take a compiler ten seconds.
extern template Scenario scenario<scenarios::Stateful>(Spec<scenarios::Stateful> spec);

}  // namespace lockstep
