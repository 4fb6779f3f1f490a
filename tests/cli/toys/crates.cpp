// Scenarios whose cases have enough fields to be shrunk.
#include "harness/cases/generators.h"
#include "harness/rank/rank_context.h"
#include "harness/verdict/compare.h"
#include "tests/cli/toys/toys.h"

#include <cstdlib>
#include <span>

namespace lockstep::toys {

namespace {

struct Crate {
  int width = 1, label = 0;
  bool operator==(const Crate&) const = default;
  static constexpr auto fields() {
    return std::tuple{field("width", &Crate::width, between(1, 64)),
                      field("label", &Crate::label, between(0, 20))};
  }
};

enum class Mark { none, chalk, paint };

struct Crates {
  WorldSpec world;
  int steps = 1;
  std::vector<Crate> crates;
  std::vector<int> loads;  // of each rank, read cyclically
  int64_t rope = 0;
  bool stacked = false;
  Mark mark = Mark::none;
  uint64_t seed = 0;
  static constexpr auto fields() {
    return std::tuple{field("world", &Crates::world),
                      field("steps", &Crates::steps, between(1, 100)),
                      field("crates", &Crates::crates),
                      field("loads", &Crates::loads, between(0, 100)),
                      field("rope", &Crates::rope, at_least(0)),
                      field("stacked", &Crates::stacked),
                      field("mark", &Crates::mark),
                      field("seed", &Crates::seed, {}, Cost::numbers)};
  }
};

rc::Gen<Crates> some_crates() {
  using rc::gen::inRange;
  const auto crate = gen::apply(
      [](int width, int label) {
        return Crate{width, label};
      },
      inRange(1, 9), inRange(0, 4));
  return gen::apply(
      [](int world, int steps, std::vector<Crate> crates, std::vector<int> loads, int64_t rope,
         bool stacked, Mark mark) {
        return Crates{{.size = world}, steps, std::move(crates), std::move(loads), rope,
                      stacked,         mark};
      },
      inRange(1, 6), inRange(1, 9), rc::gen::container<std::vector<Crate>>(crate),
      rc::gen::container<std::vector<int>>(inRange(0, 9)), inRange<int64_t>(0, 40),
      rc::gen::arbitrary<bool>(), rc::gen::element(Mark::none, Mark::chalk, Mark::paint));
}

int load_of(const Crates& c, int rank) {
  return c.loads.empty() ? 1 : c.loads[static_cast<size_t>(rank) % c.loads.size()];
}

bool has_two_alike(const Crates& c) {
  for (size_t i = 0; i < c.crates.size(); ++i)
    for (size_t j = i + 1; j < c.crates.size(); ++j)
      if (c.crates[i].label > 0 && c.crates[i].label == c.crates[j].label) return true;
  return false;
}

// The sum of tens over the ranks, in every step; `is_short` leaves the last rank's out of it, by
// not coming or by coming with nothing.
void haul(const Crates& c, RankContext& here, bool is_short, bool comes) {
  for (int step = 0; step < c.steps; ++step) {
    here.enter(step, "look");
    auto sum = at::tensor({is_short && here.rank() == c.world.size - 1 ? 0.0F : 10.0F});
    if (comes || !is_short || step < 3 || here.rank() != c.world.size - 1) {
      std::vector<at::Tensor> tensors{sum};
      here.group()->allreduce(tensors)->wait();
    }
    here.record("sum", sum);
  }
}

void loses_a_load(const Crates& c, RankContext& here) {
  const bool is_uneven = load_of(c, c.world.size - 1) < load_of(c, 0);
  haul(c, here, c.world.size >= 3 && has_two_alike(c) && is_uneven, true);
}

void stays_away(const Crates& c, RankContext& here) {
  haul(c, here, c.world.size >= 2 && c.steps >= 4 && c.stacked && c.rope >= 7, false);
}

void breaks(const Crates& c, RankContext& here) {
  if (c.crates.size() >= 2 && c.crates.back().width >= 5 && c.mark == Mark::paint &&
      here.rank() == here.size() - 1)
    std::abort();
  haul(c, here, false, true);
}

TensorValue ten_of_each(int ranks) {
  const float sum = 10.0F * static_cast<float>(ranks);
  TensorValue value{"float32", {1}, {}};
  const auto bytes = std::as_bytes(std::span(&sum, 1));
  value.bytes.assign(bytes.begin(), bytes.end());
  return value;
}

Findings sums_are_tens(const Crates& c, const History& history) {
  Findings out;
  for (const auto& row : history.rows("look"))
    out += equal("The sum must be ten of every rank",
                 {{.row = row, .expected = {ten_of_each(c.world.size)}}});
  return out;
}

Scenario crates(const char* name, void (*program)(const Crates&, RankContext&)) {
  return scenario<Crates>({.name = std::string("crates.") + name,
                           .claim = "The sum of the crates is ten of every rank.",
                           .exactness = "bit-equal",
                           .draws = 2000,
                           .cases = some_crates(),
                           .program = program,
                           .checks = {sums_are_tens}});
}

}  // namespace

std::vector<Scenario> crates() {
  return {crates("lose_a_load", loses_a_load), crates("stay_away", stays_away),
          crates("break", breaks)};
}

}  // namespace lockstep::toys
