// If models differ, every rank throws the same sentence, before any tensor is sent.
//
// One rank builds its model differently: a layer more, another width, another dtype, two layers of
// one size in the other order, a parameter frozen. Tensors of equal size would be paired and summed
// silently; others would hang or abort the group. The trace shows what was sent before the ranks
// threw: an exchange of descriptions, and no broadcast and no all-reduce.
#include "harness/core/compare.h"
#include "harness/core/scenario.h"
#include "harness/recorder/rank_context.h"
#include "harness/worlds/subject.h"

#include <torch/torch.h>

namespace lockstep::scenarios::replicas_different_models_are_refused {
namespace {

struct Differing {
  WorldSpec world;
  std::string difference = "a layer more";
  int odd_rank = 1;  // the one that differs, modulo the world size
  auto operator<=>(const Differing&) const = default;
  static constexpr auto fields() {
    return std::tuple{field("world", &Differing::world),
                      field("difference", &Differing::difference,
                            one_of("a layer more|another width|another dtype|layers swapped|"
                                   "a parameter frozen|a buffer more|another dimension")),
                      field("odd_rank", &Differing::odd_rank, between(0, 1023))};
  }
};

class Chain : public Model {
 public:
  explicit Chain(const std::string& difference) {
    const std::vector<const char*> names =
        difference == "layers swapped" ? std::vector{"b", "a"} : std::vector{"a", "b"};
    for (const char* name : names) add(name, difference == "another width" ? 3 : 2);
    if (difference == "a layer more") add("c", 2);
    if (difference == "another dimension") register_parameter("d", torch::ones({1, 2}));
    if (difference != "another dimension") register_parameter("d", torch::ones({2}));
    if (difference == "a buffer more") register_buffer("e", torch::ones({2}));
    if (difference == "a parameter frozen") parameters().back().set_requires_grad(false);
    if (difference == "another dtype") to(at::kDouble);
  }
  at::Tensor forward(const at::Tensor& input) override { return input; }

 private:
  void add(const std::string& name, int64_t width) {
    register_module(name, torch::nn::Linear(width, width));
  }
};

void program(const Differing& c, RankContext& here) {
  const bool is_odd = here.rank() == c.odd_rank % here.size();
  const auto model = std::make_shared<Chain>(is_odd ? c.difference : "");
  here.enter(0, "wrapping");
  try {
    wrap(here, model, {});
  } catch (const Unsupported&) {
    throw;
  } catch (const std::exception& error) {
    const std::string sentence = error.what();
    here.record("refused", std::vector<int64_t>{1});
    here.record("sentence", std::vector<int64_t>(sentence.begin(), sentence.end()));
    return;
  }
  here.record("refused", std::vector<int64_t>{0});
  here.record("sentence", std::vector<int64_t>{});
}

Findings every_rank_refuses(const Differing& c, const History& h) {
  const auto explanation = [] {
    return Explanations{recorded_instead(
        {"wrapped_without_a_word", "a model that differs from its peers' was wrapped"},
        {int64_values({0})})};
  };
  auto out = equal("Every rank must refuse models that differ",
                   {{.row = h.row({0, "wrapping"}, "refused"),
                     .expected = {int64_values({c.world.size > 1 ? 1 : 0})},
                     .explanations = explanation}});
  out += alike("Every rank must be told the same sentence", {h.row({0, "wrapping"}, "sentence")});
  return out;
}

Findings no_tensor_travels(const Differing& c, const History& h) {
  if (c.world.size == 1) return {};
  for (int rank = 0; rank < h.size(); ++rank)
    for (const auto& collective : h.collectives(rank))
      if (collective.op.find("broadcast") != std::string::npos ||
          collective.op.find("allreduce") != std::string::npos)
        return {{"No tensor must travel before the ranks agree", "travelled_before_agreement",
                 "wrapping",
                 "rank " + std::to_string(rank) + " issued a " + collective.op + " of " +
                     std::to_string(collective.elements) + " " + collective.dtype +
                     " with models that differ"}};
  return {};
}

std::vector<Differing> every_difference() {
  std::vector<Differing> all;
  for (const int world : {2, 3, 4})
    for (int odd = 0; odd < world; ++odd)
      for (const char* difference :
           {"a layer more", "another width", "another dtype", "layers swapped",
            "a parameter frozen", "a buffer more", "another dimension"})
        all.push_back({.world = {.size = world}, .difference = difference, .odd_rank = odd});
  return all;
}

}  // namespace

Scenario different_models_are_refused() {
  return scenario<Differing>({
      .name = "replicas.different_models_are_refused",
      .claim =
          "Where one rank's model differs, every rank refuses it with the same sentence before "
          "any tensor travels.",
      .exactness = "same sentence",
      .source = "docs/semantics.md 0.1",
      .not_covered = "values that differ (the broadcast makes them equal), options that differ",
      .usual_mistake = "building layers in an order that depends on the rank.",
      .tags = {"replicas"},
      .must_catch = {"agreement_left_out"},
      .draws = 0,
      .start = {.world = {.size = 2}},
      .every = every_difference,
      .cases = rc::gen::just(Differing{.world = {.size = 2}}),
      .program = program,
      .checks = {every_rank_refuses, no_tensor_travels},
  });
}

std::vector<Scenario> all() {
  return {different_models_are_refused()};
}

}  // namespace lockstep::scenarios::replicas_different_models_are_refused
