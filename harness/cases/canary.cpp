#include "harness/cases/canary.h"

namespace lockstep {

namespace {

struct Nothing {
  WorldSpec world{.size = 2};
  static constexpr auto fields() { return std::tuple{field("world", &Nothing::world)}; }
};

void record_nothing(const Nothing&, RankContext&) {}

}  // namespace

Scenario canary() {
  return scenario<Nothing>({
      .name = "canary.records_nothing",
      .claim = "Ranks that record nothing have proved something.",
      .exactness = "must fail",
      .source = "a pass must rest on observations",
      .not_covered = "everything else: it is here to fail",
      .usual_mistake = "a check that loops over rows that are not there",
      .tags = {"canary"},
      .draws = 0,
      .cases = rc::gen::just(Nothing{}),
      .program = record_nothing,
      .checks = {},
  });
}

}  // namespace lockstep
