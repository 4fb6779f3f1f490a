// Where a forward's output is of a type into which the subject cannot look, the last forward
// decides about the next backward, once.
//
// A graph is known by the outputs it goes through, or by a function that a forward recorded. A loss
// that is a single function of the parameters, in a struct that nobody described, has neither: its
// backward could be any. So a case is a list of acts: forwards of both kinds, synchronised and
// local, some without gradients, and backwards of them and of the bare module. A subject that lets
// the last forward decide twice reduces a pass of the bare module; one that lets a forward without
// gradients pass unnoticed reduces the backward of one before it. The model multiplies its
// parameter by the input, so that a backward's gradient is that input.
#include "harness/cases/generators.h"
#include "harness/cases/scenario.h"
#include "harness/rank/rank_context.h"
#include "harness/verdict/compare.h"
#include "harness/worlds/subject.h"
#include "scenarios/accumulation/held.h"
#include "scenarios/accumulation/opaque_case.h"
#include "scenarios/cases/sentences.h"
#include "scenarios/cases/tensors.h"

#include <torch/torch.h>

#include <algorithm>

namespace lockstep::scenarios::accumulation_opaque_outputs {
namespace {

constexpr const char* kWarnings = "warnings";

std::vector<double> part_of(const Opaque& c, size_t graph, int rank) {
  return part(c.seed, graph, rank, c.world.size);
}

// One function alone: its backward is called on the very function that the forward recorded.
class Product : public Model {
 public:
  Product() : weight_(register_parameter("weight", torch::ones({kElements}))) {}
  at::Tensor forward(const at::Tensor& input) override {
    const auto product = torch::dot(weight_, input);
    return detaches ? product.detach() : product;
  }

  bool detaches = false;

 private:
  at::Tensor weight_;
};

at::Tensor run_forward(Act kind, const at::Tensor& input, Product& model, Replica& replica) {
  model.detaches = kind == Act::detached;
  const auto run = [&] {
    return is_seen(kind) ? replica.forward(input) : replica.opaque_output(input);
  };
  if (kind == Act::opaque_local || kind == Act::seen_local) {
    const auto guard = replica.no_sync();
    return run();
  }
  const torch::AutoGradMode gradients(kind != Act::without_gradients);
  return run();
}

void program(const Opaque& c, RankContext& here) {
  const Warnings warnings;
  const auto model = std::make_shared<Product>();
  const auto replica = wrap(here, model, c.options);
  const auto acts = acts_of(c);
  std::vector<at::Tensor> losses(acts.size());
  int backwards = 0;
  for (const auto& step : steps_of(c)) {
    const auto input = torch::tensor(part_of(c, step.graph, here.rank()), at::kFloat);
    auto& loss = losses[step.graph];
    if (!step.is_backward) {
      here.enter(backwards, "forward");
      loss = run_forward(acts[step.graph], input, *model, *replica);
      continue;
    }
    here.enter(backwards, step.is_bare ? "bare pass" : "backward");
    if (step.is_bare) {
      model->detaches = false;
      loss = model->forward(input.to(here.device()));
    }
    replica->backward(loss);
    here.enter(backwards++, "after backward");
    here.record("weight", gradient_or_nothing(model->parameters().front()));
    // A device's passes run on a thread of their own.
    const auto count = here.device().is_cpu() ? warnings.received().size() : 0;
    here.record(kWarnings, std::vector<int64_t>{static_cast<int64_t>(count)});
  }
}

constexpr const char
    *kBareIsAveraged =
        "a backward of model.module was averaged; each rank must keep its own gradient",
    *kLocalIsAveraged =
        "averaged, though its forward was inside no_sync; each rank must keep its own gradient";

Findings the_last_forward_decides_once(const Opaque& c, const History& h) {
  Held held(c.world.size);
  std::vector<Comparison> rows;
  int backwards = 0;
  for (const auto& step : steps_of(c)) {
    if (!step.is_backward) continue;
    for (int rank = 0; rank < c.world.size; ++rank) held.add(rank, part_of(c, step.graph, rank));
    rows.push_back(
        after_backward(h.row({backwards++, "after backward"}, "weight"), held, step.is_reduced,
                       {"reduced_a_bare_pass", step.is_bare ? kBareIsAveraged : kLocalIsAveraged}));
  }
  return equal(
      "A backward must be averaged only if its own forward was outside no_sync; where the outputs "
      "hide the graph, the last forward decides",
      rows);
}

// A pass past the replica looks like that of a forward whose outputs were not seen.
Findings nobody_is_warned_in_vain(const Opaque& c, const History& h) {
  const auto acts = acts_of(c);
  std::vector<int64_t> before(static_cast<size_t>(c.world.size), 0);
  bool sees_all = true;
  int backwards = 0;
  for (const auto& step : steps_of(c)) {
    if (!step.is_backward) {
      // One without gradients has no outputs that a pass could go through.
      const auto kind = acts[step.graph];
      sees_all = sees_all && kind != Act::opaque && kind != Act::opaque_local;
      continue;
    }
    const Moment at{backwards, "after backward"};
    const auto row = h.row(at, kWarnings);
    for (size_t rank = 0; rank < before.size(); ++rank) {
      const auto count = as_integers(row.by_rank[rank]).front();
      if (!sees_all && count > before[rank])
        return {
            {"A rank must not warn of a pass past its replica once it cannot see all outputs",
             "warned_in_vain",
             {at, kWarnings},
             "rank " + std::to_string(rank) + " warned in backward " + std::to_string(backwards)}};
      before[rank] = count;
    }
    ++backwards;
  }
  return {};
}

std::string why_outputs_must_be_seen(const Opaque& c) {
  if (c.options.find_unused_parameters || c.options.static_graph)
    return "find_unused_parameters and static_graph need outputs that can be seen";
  return why_averages_round(c.world);
}

std::vector<Opaque> every_small_one() {
  using enum Act;
  const std::vector<Acts> lists{{},
                                {opaque, bare, oldest},
                                {opaque, without_gradients, oldest},
                                {detached, bare},
                                {opaque, detached, oldest},
                                {opaque_local, oldest},
                                {opaque, opaque_local, newest, oldest},
                                {opaque_local, opaque, oldest, newest},
                                {opaque, seen, oldest, newest},
                                {seen, opaque, oldest, newest},
                                {seen_local, opaque, oldest, newest},
                                {bare, opaque, oldest}};
  std::vector<Opaque> all;
  for (const int world : {2, 4})
    for (const auto& acts : lists)
      all.push_back({.world = {.size = world}, .acts = acts, .seed = 5});
  return all;
}

rc::Gen<Opaque> cases() {
  using enum Act;
  const auto acts = rc::gen::weightedElement<Act>({{4, opaque},
                                                   {2, opaque_local},
                                                   {1, seen},
                                                   {1, seen_local},
                                                   {2, without_gradients},
                                                   {2, detached},
                                                   {3, oldest},
                                                   {3, newest},
                                                   {3, bare}});
  return gen::apply(
      [](int world, Acts acts, bool views, bool batched, uint64_t seed) {
        return Opaque{.world = {.size = world},
                      .acts = std::move(acts),
                      .options = {.gradient_as_bucket_view = views, .batched_grad_copy = batched},
                      .seed = seed};
      },
      rc::gen::element(2, 4), gen::lists(9, acts), rc::gen::arbitrary<bool>(),
      rc::gen::arbitrary<bool>(), rc::gen::inRange<uint64_t>(0, 1000));
}

bool some_backward(const Opaque& c, bool (*is)(const Step&)) {
  const auto steps = steps_of(c);
  return std::any_of(steps.begin(), steps.end(), is);
}

}  // namespace

Scenario opaque_outputs_decide_once() {
  return scenario<Opaque>({
      .name = "accumulation.opaque_outputs_decide_once",
      .claim = "Where outputs cannot be seen, the last forward decides about the next such "
               "backward, once.",
      .in_full = "Where the outputs of the last forward cannot be seen, that forward decides about "
                 "the next backward whose outputs cannot be seen, once.",
      .exactness = "bit-equal",
      .source = "docs/semantics.md 0.12, 1.4",
      .not_covered = "graphs with a function that a forward recorded, worlds that are no powers "
                     "of two",
      .usual_mistake = "letting a forward decide about every backward until the next one.",
      .tags = {"accumulation"},
      .must_catch = {"bare_pass_is_reported_though_outputs_are_opaque",
                     "last_forward_decides_twice", "forward_without_gradients_is_not_the_last",
                     "output_without_a_graph_decides"},
      .draws = 60,
      .start = {.world = {.size = 2}},
      .every = every_small_one,
      .cases = cases(),
      .precondition = why_outputs_must_be_seen,
      .program = program,
      .checks = {the_last_forward_decides_once, nobody_is_warned_in_vain},
      .labels = {{"four ranks", 0.15, [](const Opaque& c) { return c.world.size == 4; }},
                 {"a pass of the bare module that stays local", 0.2,
                  [](const Opaque& c) {
                    return some_backward(
                        c, [](const Step& step) { return step.is_bare && !step.is_reduced; });
                  }},
                 {"a forward without gradients", 0.2,
                  [](const Opaque& c) {
                    return std::ranges::count(c.acts, Act::without_gradients) > 0;
                  }},
                 {"an output without a graph", 0.2,
                  [](const Opaque& c) { return std::ranges::count(c.acts, Act::detached) > 0; }},
                 {"a pass that a forward decides", 0.2,
                  [](const Opaque& c) {
                    return some_backward(c, [](const Step& step) { return step.is_reduced; });
                  }}},
  });
}

}  // namespace lockstep::scenarios::accumulation_opaque_outputs
