// A false claim: part of every full run, which fails if this passes. It would pass if ranks never
// ran, records were lost, or the comparison compared nothing.
#include "harness/cases/scenario.h"
#include "harness/rank/rank_context.h"
#include "harness/verdict/compare.h"
#include "scenarios/cases/sampling.h"

namespace lockstep::scenarios::canary_every_rank_is_rank_zero {
namespace {

void program(const Sampling&, RankContext& here) {
  here.enter(0, "look");
  here.record("rank", std::vector<int64_t>{here.rank()});
}

Findings every_rank_is_rank_zero(const Sampling&, const History& h) {
  return alike("Every rank must be rank 0", {h.row({0, "look"}, "rank")});
}

}  // namespace

Scenario every_rank_is_rank_zero() {
  const Sampling start{.world = {.size = 3}};
  return scenario<Sampling>({
      .name = "canary.every_rank_is_rank_zero",
      .claim = "Every rank is rank 0, which is false: this must fail.",
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

}  // namespace lockstep::scenarios::canary_every_rank_is_rank_zero
