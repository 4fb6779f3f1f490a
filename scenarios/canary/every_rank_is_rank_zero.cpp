// A claim that is false: part of every full run, which is red if this passes. Ranks that never
// ran, records that were lost, a comparison that compares nothing: each would let it through.
#include "harness/core/compare.h"
#include "harness/world/rank_context.h"
#include "scenarios/cases/sampling.h"
#include "scenarios/catalogue.h"

namespace lockstep::scenarios {
namespace {

void program(const Sampling&, RankContext& here) {
  here.enter(0, "look");
  here.record("rank", std::vector<int64_t>{here.rank()});
}

Findings every_rank_is_rank_zero(const Sampling&, const History& h) {
  return alike("Every rank must be rank 0", {h.row({0, "look"}, "rank")});
}

}  // namespace

Scenario canary_every_rank_is_rank_zero() {
  const Sampling start{.world = {.size = 3}};
  return scenario<Sampling>({
      .name = "canary.every_rank_is_rank_zero",
      .claim = "Every rank is rank 0. It is not: this must fail.",
      .exactness = "must fail",
      .source = "nowhere; it is false",
      .not_covered = "everything else",
      .usual_mistake = "a harness that judges nothing.",
      .tags = {"canary"},
      .must_catch = {"a harness that judges nothing"},
      .draws = 1,
      .start = start,
      .every = nullptr,
      .cases = rc::gen::just(start),
      .program = program,
      .checks = {every_rank_is_rank_zero},
  });
}

}  // namespace lockstep::scenarios
