// The forward whose graph a backward runs decides if that is reduced, in whatever order and however
// often graphs are run.
//
// A flag that a forward sets and a backward clears gets this wrong as soon as forwards and
// backwards do not alternate: after two synchronised forwards the second one's backward stays
// local, and a local forward's backward takes the flag of a synchronised one. Ranks then hold
// different gradients, without an error. So the case is a list of forwards and a list of backwards,
// which name forwards by number, possibly more than once. Gradients accumulate over all of them.
// A loss may be made of what the module kept for itself, so that its pass goes through no output.
// The model is one parameter whose gradient is chosen freely, in worlds that are powers of two, so
// that every average is a small whole number.
#include "harness/cases/generators.h"
#include "harness/cases/scenario.h"
#include "harness/rank/rank_context.h"
#include "harness/verdict/compare.h"
#include "harness/worlds/subject.h"
#include "scenarios/accumulation/graphs.h"
#include "scenarios/accumulation/held.h"
#include "scenarios/cases/tensors.h"

#include <torch/torch.h>

#include <algorithm>

namespace lockstep::scenarios::accumulation_graphs_decide {
namespace {

// The gradient of forward `forward` on `rank`.
std::vector<double> part_of(const Graphs& c, size_t forward, int rank) {
  return part(c.seed, forward, rank, c.world.size);
}

// A sum saves nothing for its backward, so its graph can be run any number of times.
class Shifted : public Model {
 public:
  Shifted() : weight_(register_parameter("weight", torch::ones({kElements}))) {}
  at::Tensor forward(const at::Tensor& input) override {
    kept.push_back(weight_ + input);
    return kept.back() + input;
  }

  std::vector<at::Tensor> kept;

 private:
  at::Tensor weight_;
};

void program(const Graphs& c, RankContext& here) {
  const auto model = std::make_shared<Shifted>();
  const auto replica = wrap(here, model, c.options);
  std::vector<at::Tensor> outputs;
  const auto forward = [&] { outputs.push_back(replica->forward(torch::zeros({kElements}))); };
  for (const auto kind : forwards_of(c))
    kind == Forward::local ? replica->no_sync(forward) : forward();
  int step = 0;
  for (const auto graph : backwards_of(c)) {
    const auto gradient = torch::tensor(part_of(c, graph, here.rank()), at::kFloat);
    const auto& output = c.of_kept ? model->kept[graph] : outputs[graph];
    replica->backward((output * gradient.to(output.device())).sum());
    here.enter(step++, "after backward");
    here.record("weight", gradient_or_nothing(model->parameters().front()));
  }
}

Findings each_is_as_its_forward_was(const Graphs& c, const History& h) {
  Held held(c.world.size);
  std::vector<Comparison> rows;
  int step = 0;
  for (const auto graph : backwards_of(c)) {
    for (int rank = 0; rank < c.world.size; ++rank) held.add(rank, part_of(c, graph, rank));
    const bool is_local = forwards_of(c)[graph] == Forward::local;
    rows.push_back(
        after_backward(h.row({step++, "after backward"}, "weight"), held, !is_local,
                       {"reduced_inside_no_sync", "the average, though its forward was local"}));
  }
  return equal("A backward must be reduced if its own forward was synchronised, and only then",
               rows);
}

std::vector<Graphs> every_small_one() {
  using enum Forward;
  std::vector<Graphs> all;
  for (const int world : {2, 4})
    for (const auto& forwards : std::vector<std::vector<Forward>>{
             {synced}, {synced, synced}, {local, synced}, {synced, local}})
      for (const auto& backwards : std::vector<std::vector<int>>{{}, {1, 0}, {0, 0}, {0, 1, 0}})
        for (const bool views : {false, true})
          for (const bool of_kept : {false, true})
            all.push_back({.world = {.size = world},
                           .forwards = forwards,
                           .backwards = backwards,
                           .of_kept = of_kept,
                           .options = {.gradient_as_bucket_view = views},
                           .seed = 5});
  return all;
}

rc::Gen<Graphs> cases() {
  const auto kinds = rc::gen::element(Forward::synced, Forward::local);
  return gen::apply(
      [](int world, std::vector<Forward> forwards, std::vector<int> backwards, bool of_kept,
         bool views, bool batched, uint64_t seed) {
        return Graphs{.world = {.size = world},
                      .forwards = std::move(forwards),
                      .backwards = std::move(backwards),
                      .of_kept = of_kept,
                      .options = {.gradient_as_bucket_view = views, .batched_grad_copy = batched},
                      .seed = seed};
      },
      rc::gen::element(2, 4), gen::lists(7, kinds), gen::lists(5, rc::gen::inRange(0, 7)),
      rc::gen::arbitrary<bool>(), rc::gen::arbitrary<bool>(), rc::gen::arbitrary<bool>(),
      rc::gen::inRange<uint64_t>(0, 1000));
}

}  // namespace

Scenario graphs_decide() {
  return scenario<Graphs>({
      .name = "accumulation.graphs_decide",
      .claim = "A backward is reduced if the forward whose graph it runs was synchronised.",
      .in_full = "A backward is reduced if the forward whose graph it runs was synchronised, in "
                 "whatever order and however often graphs are run.",
      .exactness = "bit-equal",
      .source = "docs/semantics.md 0.10",
      .not_covered = "one backward through several graphs, worlds that are no powers of two",
      .usual_mistake = "a flag that a forward raises and the next backward lowers.",
      .tags = {"accumulation"},
      .must_catch = {"four_forwards_remembered", "one_flag_for_all_forwards"},
      .draws = 60,
      .start = {.world = {.size = 2}},
      .every = every_small_one,
      .cases = cases(),
      .precondition = [](const Graphs& c) { return why_averages_round(c.world); },
      .program = program,
      .checks = {each_is_as_its_forward_was},
      .cause =
          [](const Graphs&, std::string_view pattern) {
            return std::string(
                pattern == "not_reduced"
                    ? "after forwards outside no_sync DDP averages the next backward, and no later "
                      "one: add the losses and call backward() once"
                    : "");
          },
      .labels =
          {{"four ranks", 0.15, [](const Graphs& c) { return c.world.size == 4; }},
           {"losses of what the module kept", 0.3, [](const Graphs& c) { return c.of_kept; }},
           {"a backward behind five forwards and more that are synchronised", 0.08,
            [](const Graphs& c) { return std::ranges::count(c.forwards, Forward::synced) > 4; }},
           {"a local forward", 0.4,
            [](const Graphs& c) { return std::ranges::count(c.forwards, Forward::local) > 0; }}},
  });
}

}  // namespace lockstep::scenarios::accumulation_graphs_decide
