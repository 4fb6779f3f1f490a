#include "harness/canaries/judged.h"

#include "harness/rank/rank_context.h"
#include "harness/verdict/compare.h"
#include "harness/worlds/subject.h"

#include <array>
#include <bit>
#include <chrono>

namespace lockstep::canaries {

namespace {

struct Pair {
  WorldSpec world{.size = 2};
  static constexpr auto fields() { return std::tuple{field("world", &Pair::world)}; }
};

struct Sized {
  WorldSpec world{.size = 2};
  int elements = 1, beside = 0;
  static constexpr auto fields() {
    return std::tuple{field("world", &Sized::world),
                      field("elements", &Sized::elements, between(1, 100)),
                      field("beside", &Sized::beside, between(0, 100))};
  }
};

const Moment kLook{0, "look"};

bool is_last(const RankContext& here) {
  return here.rank() == here.size() - 1;
}

// The number of each rank, from 1.
at::Tensor own_value(const RankContext& here) {
  return at::full({3}, here.rank() + 1.0,
                  at::TensorOptions().dtype(at::kFloat).device(here.device()));
}

void reduce(RankContext& here) {
  std::vector<at::Tensor> sum{own_value(here)};
  here.group()->allreduce(sum)->wait();
  here.enter(kLook.step, kLook.phase);
  here.record("sum", sum.front());
}

void issue_another(const Pair&, RankContext& here) {
  std::vector<at::Tensor> value{own_value(here)};
  here.enter(kLook.step, kLook.phase);
  here.record("own", value.front());
  const auto group = here.group();
  (is_last(here) ? group->broadcast(value) : group->allreduce(value))->wait();
}

TensorValue floats(size_t count, float value) {
  TensorValue out{.dtype = "float32", .shape = {static_cast<int64_t>(count)}, .bytes = {}};
  for (size_t i = 0; i < count; ++i) {
    const auto bytes = std::bit_cast<std::array<std::byte, sizeof(float)>>(value);
    out.bytes.insert(out.bytes.end(), bytes.begin(), bytes.end());
  }
  return out;
}

template <CaseType C>
Findings holds_the_sum(const C&, const History& h) {
  return equal("Every rank must hold the sum",
               {{.row = h.row(kLook, "sum"), .expected = {floats(3, 3)}}});
}

Findings nothing(const Pair&, const History&) {
  return {};
}

template <CaseType C>
Scenario canary(const std::string& name, const std::string& claim,
                void (*program)(const C&, RankContext&),
                std::vector<Findings (*)(const C&, const History&)> checks, C start = {}) {
  return scenario<C>({.name = "canary." + name,
                      .claim = claim,
                      .exactness = "must fail",
                      .source = "a pass must rest on judgements that can fail",
                      .not_covered = "everything else: it is here to fail",
                      .usual_mistake = "a judgement that is blind",
                      .tags = {"canary"},
                      .draws = 0,
                      .start = start,
                      .cases = rc::gen::just(start),
                      .program = program,
                      .checks = std::move(checks)});
}

Pair with_injection(const Injection& injection) {
  return {.world = {.injections = {injection}, .size = 2}};
}

}  // namespace

Scenario records_nothing() {
  return canary<Pair>("records_nothing", "Ranks that record nothing have proved something.",
                      [](const Pair&, RankContext&) {}, {});
}

Scenario records_a_sum() {
  return canary<Pair>(
      "records_a_sum", "A sum is an average.", [](const Pair&, RankContext& here) { reduce(here); },
      {[](const Pair&, const History& h) {
        return equal(
            "Every rank must hold the average",
            {{.row = h.row(kLook, "sum"), .expected = {floats(3, 1.5F)}, .explanations = [] {
                return Explanations{sum_not_average("numbers")};
              }}});
      }});
}

Scenario disagrees() {
  return canary<Pair>("disagrees", "Ranks agree about what each has for itself.",
                      [](const Pair&, RankContext& here) {
                        here.enter(kLook.step, kLook.phase);
                        here.record("own", own_value(here));
                      },
                      {[](const Pair&, const History& h) {
                        return alike("Every rank must hold the same", {h.row(kLook, "own")});
                      }});
}

Scenario issues_another() {
  return canary<Pair>("issues_another", "A broadcast on one rank matches a sum on the others.",
                      issue_another, {nothing});
}

Scenario returns_from_another() {
  const auto drop = [](int rank) {
    return Injection{.kind = InjectionKind::drop, .rank = rank, .collective = 0, .at = {}};
  };
  return canary<Pair>(
      "returns_from_another", "Collectives that differ match where the backend reports success.",
      issue_another, {nothing}, {.world = {.injections = {drop(0), drop(1)}, .size = 2}});
}

Scenario leaves_behind() {
  return canary<Pair>("leaves_behind", "A collective that a rank does not wait for is done.",
                      [](const Pair&, RankContext& here) {
                        std::vector<at::Tensor> value{own_value(here)};
                        here.enter(kLook.step, kLook.phase);
                        here.record("own", value.front());
                        if (!is_last(here)) here.group()->allreduce(value);
                      },
                      {nothing});
}

Scenario throws_on_one() {
  return canary<Pair>("throws_on_one", "A rank that throws returns.",
                      [](const Pair&, RankContext& here) {
                        here.enter(kLook.step, kLook.phase);
                        here.record("own", own_value(here));
                        if (is_last(here)) throw std::runtime_error("as it must");
                      },
                      {nothing});
}

Scenario waits_forever() {
  return canary<Pair>("waits_forever", "A rank that waits for what never comes returns.",
                      [](const Pair&, RankContext& here) {
                        here.enter(kLook.step, kLook.phase);
                        here.record("own", own_value(here));
                        if (is_last(here)) here.store()->wait({"never"});
                      },
                      {nothing});
}

Scenario is_corrupted() {
  return canary<Pair>(
      "is_corrupted", "A flipped bit changes nothing.",
      [](const Pair&, RankContext& here) { reduce(here); }, {holds_the_sum<Pair>},
      with_injection(
          {.kind = InjectionKind::corrupt, .rank = 1, .collective = 0, .at = {}, .amount = 22}));
}

Scenario is_never_struck() {
  return canary<Pair>(
      "is_never_struck", "An injection that finds no moment strikes.",
      [](const Pair&, RankContext& here) { reduce(here); }, {holds_the_sum<Pair>},
      with_injection({.kind = InjectionKind::throw_, .rank = 1, .at = {0, "never"}}));
}

Scenario is_refused_by_one() {
  return canary<Pair>("is_refused_by_one", "A rank may refuse alone.",
                      [](const Pair&, RankContext& here) {
                        here.enter(kLook.step, kLook.phase);
                        here.record("own", own_value(here));
                        if (is_last(here)) throw Unsupported("it refuses alone");
                      },
                      {nothing});
}

Scenario is_refused_by_all() {
  return canary<Pair>("is_refused_by_all", "What every rank refuses has passed.",
                      [](const Pair&, RankContext&) { throw Unsupported("all refuse"); },
                      {nothing});
}

Scenario is_beyond_its_claim() {
  auto out =
      canary<Pair>("is_beyond_its_claim", "A case beyond the claim has passed.",
                   [](const Pair&, RankContext& here) { reduce(here); }, {holds_the_sum<Pair>});
  out.unmet_precondition = [](const Case&) { return "it is beyond the claim"; };
  return out;
}

Scenario has_no_such_label() {
  const Sized start;
  return scenario<Sized>(
      {.name = "canary.has_no_such_label",
       .claim = "Half of the cases have a thousand elements.",
       .exactness = "must fail",
       .source = "a share that is required must be missed where it is",
       .not_covered = "everything else: it is here to fail",
       .usual_mistake = "labels that are counted wrongly",
       .tags = {"canary"},
       .draws = 25,
       .start = start,
       .cases = rc::gen::map(rc::gen::inRange(1, 100),
                             [](int elements) { return Sized{.elements = elements}; }),
       .program = [](const Sized&, RankContext& here) { reduce(here); },
       .checks = {holds_the_sum<Sized>},
       .labels = {{"a thousand elements", 0.5, [](const Sized& c) { return c.elements == 1000; }},
                  {"elements", 0.9, [](const Sized& c) { return c.elements >= 1; }}}});
}

Scenario issues_a_collective() {
  return canary<Pair>(
      "issues_a_collective", "A rank that sums has issued no collective.",
      [](const Pair&, RankContext& here) { reduce(here); }, {[](const Pair&, const History& h) {
        Findings out;
        for (const auto& one : h.collectives(1))
          out.push_back({"A rank must issue no collective",
                         one.op + " of " + std::to_string(one.elements) + " " + one.dtype + " in " +
                             one.group + (one.done ? ", done" : ""),
                         "rank 1", "it did"});
        return out;
      }});
}

Scenario fails_from_three() {
  return canary<Sized>(
      "fails_from_three", "Every number of elements is below three.",
      [](const Sized& c, RankContext& here) {
        here.enter(kLook.step, kLook.phase);
        here.record("elements", {c.elements});
      },
      {[](const Sized& c, const History& h) -> Findings {
        if (as_integers(h.row(kLook, "elements").by_rank.front()).front() < 3) return {};
        return {{"Elements must be fewer than three", "", "rank 0", std::to_string(c.elements)}};
      }},
      {.world = {.size = 3}, .elements = 40, .beside = 7});
}

Scenario records_the_time() {
  return canary<Pair>("records_the_time", "A rank that records the time repeats itself.",
                      [](const Pair&, RankContext& here) {
                        here.enter(kLook.step, kLook.phase);
                        here.record("time",
                                    {std::chrono::steady_clock::now().time_since_epoch().count()});
                      },
                      {[](const Pair&, const History& h) {
                        h.row(kLook, "time");
                        return Findings();
                      }});
}

}  // namespace lockstep::canaries
