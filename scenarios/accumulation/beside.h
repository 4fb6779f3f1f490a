// The shape Beside: passes of the inner module beside the steps of a training.
#pragma once

#include "harness/base/case.h"
#include "harness/worlds/options.h"

#include <string>
#include <vector>

namespace lockstep::scenarios::accumulation_bare_passes_are_local {

enum class PassKind { module, evaluation, penalty, parameter };

// Before the forward, between it and its backward, or after that.
enum class PassMoment { before, between, after };

struct BarePass {
  PassKind kind = PassKind::module;
  PassMoment moment = PassMoment::after;
  int ranks = 1;  // bit r: on rank r
  auto operator<=>(const BarePass&) const = default;
  static constexpr auto fields() {
    return std::tuple{field("kind", &BarePass::kind), field("moment", &BarePass::moment),
                      field("ranks", &BarePass::ranks, between(1, 15))};
  }
};

enum class LossOf { output, kept };

struct Beside {
  WorldSpec world;
  int steps = 1;
  LossOf loss_of = LossOf::output;
  std::vector<BarePass> passes;
  WrapOptions options;
  uint64_t seed = 0;
  auto operator<=>(const Beside&) const = default;
  static constexpr auto fields() {
    return std::tuple{
        field("world", &Beside::world),     field("steps", &Beside::steps, between(1, 4)),
        field("loss_of", &Beside::loss_of), field("passes", &Beside::passes),
        field("options", &Beside::options), field("seed", &Beside::seed)};
  }
};

// One backward of a case, in the order in which all ranks come to it.
struct Backward {
  int step = 0;
  std::string phase;
  const BarePass* bare = nullptr;  // null: the step's own
};

inline std::vector<Backward> backwards_of(const Beside& c) {
  std::vector<Backward> all;
  for (int step = 0; step < c.steps; ++step) {
    const auto at = [&](PassMoment moment) {
      for (size_t pass = 0; pass < c.passes.size(); ++pass)
        if (c.passes[pass].moment == moment)
          all.push_back({step, "after bare pass " + std::to_string(pass), &c.passes[pass]});
    };
    at(PassMoment::before);
    at(PassMoment::between);
    all.push_back({step, "after backward"});
    at(PassMoment::after);
  }
  return all;
}

}  // namespace lockstep::scenarios::accumulation_bare_passes_are_local
