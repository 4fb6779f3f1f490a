#include "tests/campaign/planted.h"

#include "harness/cases/generators.h"
#include "tests/campaign/toys.h"

#include <algorithm>

namespace lockstep::planted {

namespace {

int part_of(const Planted& c, int rank) {
  return c.parts.empty() ? 1 : c.parts[static_cast<size_t>(rank) % c.parts.size()];
}

bool has_tied_pair(const Planted& c) {
  for (size_t i = 0; i < c.layers.size(); ++i)
    for (size_t j = i + 1; j < c.layers.size(); ++j)
      if (c.layers[i].tied > 0 && c.layers[i].tied == c.layers[j].tied) return true;
  return false;
}

bool has_kill(const Planted& c) {
  return std::any_of(
      c.world.injections.begin(), c.world.injections.end(), [&](const Injection& one) {
        return one.kind == InjectionKind::kill && one.rank > 0 && one.rank < c.world.size;
      });
}

int widest(const Planted& c) {
  int most = 0;
  for (const auto& layer : c.layers) most = std::max(most, layer.width);
  return most;
}

std::vector<Bug> all_bugs() {
  std::vector<Bug> all;
  all.push_back({"tied layers under an uneven last part",
                 Symptom::wrong_number,
                 [](const Planted& c) {
                   return c.world.size >= 3 && has_tied_pair(c) &&
                          part_of(c, c.world.size - 1) < part_of(c, 0);
                 },
                 {.world = {.size = 3}, .layers = {{.tied = 1}, {.tied = 1}}, .parts = {1, 0, 0}},
                 [](Planted& c) {
                   c.layers[2].tied = c.layers[9].tied = 1;
                   c.parts = {5, 3, 8, 1, 2, 9, 4};
                 }});
  all.push_back(
      {"unused parameters of two layers from the fifth step",
       Symptom::hang,
       [](const Planted& c) { return c.steps >= 5 && c.find_unused && c.layers.size() >= 2; },
       {.steps = 5, .layers = {{}, {}}, .find_unused = true},
       [](Planted&) {}});
  all.push_back({"a cap below the widest layer",
                 Symptom::crash,
                 [](const Planted& c) {
                   return c.world.size >= 2 && c.bucket_cap > 0 && c.bucket_cap < 4 * widest(c);
                 },
                 {.world = {.size = 2}, .layers = {{}}, .bucket_cap = 1},
                 [](Planted& c) { c.bucket_cap = 20; }});
  all.push_back(
      {"a bias in the last of three views",
       Symptom::wrong_number,
       [](const Planted& c) { return c.as_view && c.layers.size() >= 3 && c.layers.back().bias; },
       {.layers = {{}, {}, {.bias = true}}, .as_view = true},
       [](Planted& c) { c.layers.back().bias = true; }});
  all.push_back({"groups that are half the world",
                 Symptom::wrong_number,
                 [](const Planted& c) { return c.groups >= 2 && c.world.size == 2 * c.groups; },
                 {.world = {.size = 4}, .groups = 2},
                 [](Planted& c) { c.world.size = 8, c.groups = 4; }});
  all.push_back({"four micro-batches in the third step",
                 Symptom::wrong_number,
                 [](const Planted& c) { return c.micro_batches >= 4 && c.steps >= 3; },
                 {.steps = 3, .micro_batches = 4},
                 [](Planted&) {}});
  all.push_back({"a hook that sums real values",
                 Symptom::wrong_number,
                 [](const Planted& c) { return c.hook == Hook::sum && c.values == Values::real; },
                 {.hook = Hook::sum, .values = Values::real},
                 [](Planted&) {}});
  all.push_back({"a peer's death unreported",
                 Symptom::hang,
                 has_kill,
                 {.world = {.injections = {{.kind = InjectionKind::kill, .rank = 1}}, .size = 2}},
                 [](Planted&) {}});
  all.push_back({"the order of the third hand-over",
                 Symptom::wrong_number,
                 [](const Planted& c) {
                   return c.world.size >= 2 && c.world.schedule.choices.size() >= 3 &&
                          c.world.schedule.choices[2] > 0;
                 },
                 {.world = {.size = 2, .schedule = {.choices = {0, 0, 1}}}},
                 [](Planted&) {}});
  all.push_back({"a seed of a kind",
                 Symptom::wrong_number,
                 [](const Planted& c) { return c.seed % 5 == 3 && !c.layers.empty(); },
                 {.layers = {{}}, .seed = 3},
                 [](Planted& c) { c.seed = 5'000'003; }});
  all.push_back({"a layer as wide as seven",
                 Symptom::crash,
                 [](const Planted& c) { return widest(c) >= 7; },
                 {.layers = {{.width = 7}}},
                 [](Planted&) {}});
  all.push_back({"odd numbers of steps",
                 Symptom::wrong_number,
                 [](const Planted& c) { return c.steps >= 3 && c.steps % 2 == 1; },
                 {.steps = 3},
                 [](Planted& c) { c.steps = 29; }});
  all.push_back(
      {"the wrong sentence about micro-batches of a cap",
       Symptom::wrong_sentence,
       [](const Planted& c) { return c.micro_batches >= 2 && c.bucket_cap >= 9 && c.find_unused; },
       {.micro_batches = 2, .bucket_cap = 9, .find_unused = true},
       [](Planted&) {}});
  all.push_back({"the last layer tied to their number",
                 Symptom::wrong_number,
                 [](const Planted& c) {
                   return c.layers.size() >= 2 &&
                          c.layers.back().tied == static_cast<int>(c.layers.size());
                 },
                 {.layers = {{}, {.tied = 2}}},
                 [](Planted& c) { c.layers.back().tied = 12; }});
  // Ranks that sum in different orders hide a sum that was not divided, and small worlds do not.
  all.push_back({"a sum that shows where two ranks have one layer",
                 Symptom::wrong_number,
                 [](const Planted& c) { return c.world.size >= 2 && c.micro_batches >= 2; },
                 {.world = {.size = 2}, .micro_batches = 2},
                 [](Planted&) {},
                 [](const Planted& c) { return c.world.size > 2 || c.layers.size() > 1; }});
  all.push_back({"a stale value that shows in the first steps of small worlds",
                 Symptom::wrong_number,
                 [](const Planted& c) { return c.world.size >= 2 && c.steps >= 3; },
                 {.world = {.size = 2}, .steps = 3},
                 [](Planted&) {},
                 [](const Planted& c) { return c.steps > 9 || c.world.size > 4; }});
  return all;
}

Findings none_saw_wrong(const Planted&, const History& history) {
  for (const auto& row : history.rows("look"))
    for (const auto& value : row.by_rank) {
      if (as_integers(value) == std::vector<int64_t>{1})
        return {{"No rank may see a one", "one", "step 0", "a rank saw a one"}};
      if (as_integers(value) == std::vector<int64_t>{4})
        return {{"No rank may see a one", "sum_not_average", "step 0", "a rank saw the sum"}};
      if (as_integers(value) == std::vector<int64_t>{2})
        return {{"Every rank must say why", "wrong_sentence", "step 0", "it says something else"}};
      if (as_integers(value) == std::vector<int64_t>{3})
        return {{"No rank may see a one",
                 "every_rank_differs",
                 "step 0",
                 "a rank saw something",
                 {},
                 Specificity::which_ranks}};
    }
  return {};
}

rc::Gen<Planted> cases() {
  using rc::gen::inRange;
  const auto layer = gen::apply(
      [](int width, bool bias, int tied) {
        return PlantedLayer{width, bias, std::max(0, tied)};
      },
      inRange(1, 9), rc::gen::arbitrary<bool>(), inRange(-4, 5));
  const auto world = gen::apply(
      [](int size, int kind, int rank, std::vector<int> choices) {
        WorldSpec spec{.size = size};
        constexpr InjectionKind kKinds[] = {InjectionKind::delay, InjectionKind::kill,
                                            InjectionKind::error};
        if (kind < 3) spec.injections = {{.kind = kKinds[kind], .rank = rank % size}};
        spec.schedule.choices = std::move(choices);
        return spec;
      },
      inRange(1, 9), inRange(0, 12), inRange(0, 8),
      rc::gen::container<std::vector<int>>(inRange(0, 4)));
  const auto shape = gen::apply(
      [](WorldSpec spec, int steps, std::vector<PlantedLayer> layers, std::vector<int> parts,
         int micro_batches, int groups) {
        return Planted{std::move(spec),  steps,         std::move(layers),
                       std::move(parts), micro_batches, groups};
      },
      world, inRange(1, 31), rc::gen::container<std::vector<PlantedLayer>>(layer),
      rc::gen::container<std::vector<int>>(inRange(0, 9)), inRange(1, 6), inRange(1, 5));
  return gen::apply(
      [](Planted c, int64_t cap, bool unused, bool view, Hook hook, bool real, uint64_t seed) {
        c.layers.resize(std::min<size_t>(c.layers.size(), 12));
        if (!c.layers.empty() && seed % 7 == 0)
          c.layers.back().tied = static_cast<int>(c.layers.size());
        c.bucket_cap = std::max<int64_t>(0, cap);
        c.find_unused = unused;
        c.as_view = view;
        c.hook = hook;
        c.values = real ? Values::real : Values::exact;
        c.seed = seed;
        return c;
      },
      shape, inRange<int64_t>(-20, 40), rc::gen::arbitrary<bool>(), rc::gen::arbitrary<bool>(),
      rc::gen::element(Hook::none, Hook::half, Hook::sum), rc::gen::arbitrary<bool>(),
      inRange<uint64_t>(0, 1'000'000));
}

}  // namespace

const std::vector<Bug>& bugs() {
  static const auto all = all_bugs();
  return all;
}

Scenario scenario_of_planted() {
  return scenario<Planted>({.name = "toys.planted",
                            .claim = "No bug is planted.",
                            .exactness = "bit-equal",
                            .draws = 2000,
                            .cases = cases(),
                            .program = [](const Planted&, RankContext&) {},
                            .checks = {none_saw_wrong}});
}

Planted typed(const Case& c) {
  return from_json<Planted>(c.value, "case");
}

Case erased(const Planted& c) {
  return {"toys.planted", to_json(c)};
}

namespace {

History ended_as(const Bug& bug, const Case& c) {
  switch (bug.symptom) {
    case Symptom::wrong_number:
      return toys::recorded(c, bug.hides && bug.hides(typed(c)) ? 3 : 1);
    case Symptom::wrong_sentence:
      return toys::recorded(c, 2);
    case Symptom::hang:
      return toys::ended(c, {Ending::Kind::stuck, "it waits"});
    case Symptom::crash:
      return toys::ended(c, {Ending::Kind::signalled, "SIGSEGV"});
  }
  return {};
}

}  // namespace

// Every planted event strikes, and does nothing.
History run(const Bug& bug, const Case& c) {
  const auto value = typed(c);
  auto ranks = (bug.strikes(value) ? ended_as(bug, c) : toys::recorded(c, 0)).ranks();
  for (const auto& injection : value.world.injections)
    if (injection.rank < value.world.size)
      ranks[static_cast<size_t>(injection.rank)].events.push_back({{0, "look"}, injection});
  return History(std::move(ranks));
}

Planted large_case() {
  Planted c{.world = {.size = 7}, .steps = 30, .micro_batches = 5, .groups = 3, .bucket_cap = 37};
  c.world.injections = {{.kind = InjectionKind::delay, .rank = 2, .amount = 5},
                        {.kind = InjectionKind::kill, .rank = 4}};
  c.world.schedule = {
      .choices = {3, 1, 2, 0, 6}, .policy = SchedulePolicy::priority, .changes = 4, .seed = 99};
  c.world.reduction = ReductionShape::ring;
  c.world.timing = {.slow_links = {{1, 3, 8}}, .slow_ranks = {1, 9}, .latency_ns = 1500};
  for (int layer = 0; layer < 12; ++layer)
    c.layers.push_back({.width = 5 + layer % 4, .bias = layer % 2 == 0, .tied = layer % 3});
  c.parts = {4, 2, 7, 1};
  c.find_unused = c.as_view = true;
  c.hook = Hook::sum;
  c.values = Values::real;
  c.seed = 77'777'777;
  return c;
}

std::vector<std::optional<Outcome>> PlantedTrials::run(const std::vector<Case>& cases,
                                                       Outcome wanted, TrialTime) {
  std::vector<std::optional<Outcome>> outcomes(cases.size());
  for (size_t i = 0; i < cases.size(); ++i) {
    ++runs;
    outcomes[i] = shows_(cases[i]) ? Outcome::shows : Outcome::passes;
    if (outcomes[i] == wanted) break;
  }
  return outcomes;
}

}  // namespace lockstep::planted
