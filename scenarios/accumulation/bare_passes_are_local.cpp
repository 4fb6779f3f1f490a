// A backward of nothing that a synchronised forward recorded is local, on whichever ranks it runs.
//
// Programs use the bare module beside the wrapped one: an evaluation with gradients, a gradient
// penalty, a probe, a term of the parameters alone; often on rank 0 only. A subject that takes such
// a pass for one of its last forward's starts an all-reduce that pairs with a peer's next real
// step, and both hold wrong gradients in silence, or one waits until its deadline. So a case is a
// list of such passes, each at a moment of a step (before its forward, between forward and
// backward, after it) and on some ranks, by a bit mask. The real step's loss is made of forward's
// output, or of what the module kept for itself: that one goes through no output and must be
// averaged all the same. Gradients add up over all of it. Worlds are powers of two, and each part
// is a multiple of the world size, so every average is a small whole number.
#include "harness/cases/generators.h"
#include "harness/cases/scenario.h"
#include "harness/rank/rank_context.h"
#include "harness/verdict/compare.h"
#include "harness/worlds/subject.h"
#include "scenarios/accumulation/beside.h"
#include "scenarios/accumulation/held.h"
#include "scenarios/cases/labels.h"
#include "scenarios/cases/sentences.h"
#include "scenarios/cases/tensors.h"

#include <torch/torch.h>

#include <algorithm>

namespace lockstep::scenarios::accumulation_bare_passes_are_local {
namespace {

constexpr const char *kEnd = "end", *kCount = "warnings", *kWarning = "first warning",
                     *kWords = "whose words";
constexpr int64_t kNotCounted = -1;

bool runs_on(const Backward& backward, int rank) {
  return backward.bare == nullptr || (backward.bare->ranks >> rank) % 2 == 1;
}

// Backward number `index` adds this to the gradient on `rank`.
std::vector<double> part_of(const Beside& c, size_t index, int rank) {
  return part(c.seed, index, rank, 2 * c.world.size);
}

// A gradient of its gradient depends on the weight; where that is 1, the gradient is twice the
// input.
class Squared : public Model {
 public:
  Squared() : weight_(register_parameter("weight", torch::ones({kElements}))) {}
  at::Tensor forward(const at::Tensor& input) override {
    kept_ = weight_ * weight_ * input;
    return weight_ * weight_ * input;
  }
  const at::Tensor& weight() const { return weight_; }
  const at::Tensor& kept() const { return kept_; }

 private:
  at::Tensor weight_, kept_;
};

// Adds twice `half` to the gradient.
void run_bare_pass(PassKind kind, Squared& model, Replica& replica, const at::Tensor& half) {
  if (kind == PassKind::parameter) return (model.weight() * model.weight() * half).sum().backward();
  if (kind == PassKind::penalty) {
    const auto input = torch::ones_like(half).requires_grad_();
    const auto slope = torch::autograd::grad({model.forward(input).sum()}, {input}, {},
                                             /*retain_graph=*/true, /*create_graph=*/true);
    return (slope.front() * half).sum().backward();
  }
  if (kind == PassKind::evaluation) {
    const torch::NoGradGuard no_grad;
    replica.forward(torch::ones({kElements}));
  }
  model.forward(half).sum().backward();
}

void program(const Beside& c, RankContext& here) {
  const Warnings warnings;
  const auto model = std::make_shared<Squared>();
  const auto replica = wrap(here, model, c.options);
  at::Tensor loss;
  int forward_count = 0;
  size_t index = 0;
  for (const auto& backward : backwards_of(c)) {
    const bool is_bare = backward.bare != nullptr;
    const auto half = torch::tensor(part_of(c, index++, here.rank()), at::kFloat) / 2;
    if (forward_count == backward.step &&
        !(is_bare && backward.bare->moment == PassMoment::before)) {
      here.enter(backward.step, "forward");
      const auto output = replica->forward(torch::ones({kElements}));
      loss = c.loss_of == LossOf::kept ? model->kept() : output;
      ++forward_count;
    }
    here.enter(backward.step, is_bare ? "bare pass" : "backward");
    if (!is_bare)
      replica->backward((loss * half.to(loss.device())).sum());
    else if (runs_on(backward, here.rank()))
      run_bare_pass(backward.bare->kind, *model, *replica, half.to(here.device()));
    here.enter(backward.step, backward.phase);
    here.record("weight", gradient_or_nothing(model->weight()));
  }
  here.enter(c.steps, kEnd);
  // A device's passes run on a thread of their own.
  const auto received = here.device().is_cpu() ? warnings.received() : std::vector<std::string>();
  here.record(kCount,
              std::vector<int64_t>{here.device().is_cpu() ? static_cast<int64_t>(received.size())
                                                          : kNotCounted});
  record_sentence(here, kWarning, received.empty() ? "" : received.front());
  record_whose_words(here, kWords);
}

bool runs_some(const Beside& c, int rank) {
  return std::ranges::any_of(backwards_of(c), [rank](const Backward& each) {
    return each.bare != nullptr && runs_on(each, rank);
  });
}

Findings the_first_bare_pass_is_said_once(const Beside& c, const History& h) {
  const auto sentences = h.row({c.steps, kEnd}, kWarning);
  const auto counts = h.row({c.steps, kEnd}, kCount);
  if (!is_in_our_words(h.row({c.steps, kEnd}, kWords))) return {};
  for (int rank = 0; rank < c.world.size; ++rank) {
    const auto count = as_integers(counts.by_rank[static_cast<size_t>(rank)]).front();
    if (count == kNotCounted) continue;
    const int64_t expected = runs_some(c, rank) ? 1 : 0;
    const auto text = sentence_in(sentences, rank);
    const auto says = [&](const std::string& word) { return text.find(word) != text.npos; };
    const bool is_right =
        count == expected &&
        (expected == 0 ||
         (says("'weight'") && says("on rank " + std::to_string(rank)) && says("was not averaged")));
    if (is_right) continue;
    return {{"A rank must warn once of passes past its replica, of the first one, and of no other",
             count == expected ? "another_warning" : "warned_more_or_less_often", kEnd,
             "rank " + std::to_string(rank) + " warned " + std::to_string(count) + " times, " +
                 std::to_string(expected) + " expected" +
                 (text.empty() ? "" : ": '" + text + "'")}};
  }
  return {};
}

Findings bare_passes_add_up_locally(const Beside& c, const History& h) {
  Held held(c.world.size);
  std::vector<Comparison> rows;
  size_t index = 0;
  bool is_defined = false;  // before that a rank may have no gradient
  for (const auto& backward : backwards_of(c)) {
    for (int rank = 0; rank < c.world.size; ++rank)
      if (runs_on(backward, rank)) held.add(rank, part_of(c, index, rank));
    ++index;
    is_defined = is_defined || backward.bare == nullptr;
    if (is_defined)
      rows.push_back(after_backward(
          h.row({backward.step, backward.phase}, "weight"), held, backward.bare == nullptr,
          {"reduced_a_bare_pass",
           "a backward of model.module was averaged; each rank must keep its own gradient"}));
  }
  return equal(
      "A backward must be reduced if it runs what a synchronised forward recorded, and only then",
      rows);
}

std::vector<Beside> every_small_one() {
  std::vector<Beside> all;
  for (const int ranks : {15, 1})
    for (const auto kind :
         {PassKind::module, PassKind::evaluation, PassKind::penalty, PassKind::parameter})
      for (const auto moment : {PassMoment::after, PassMoment::between, PassMoment::before})
        for (const auto loss_of : {LossOf::output, LossOf::kept})
          for (const int world : {2, 4})
            all.push_back({.world = {.size = world},
                           .steps = 2,
                           .loss_of = loss_of,
                           .passes = {{.kind = kind, .moment = moment, .ranks = ranks}},
                           .seed = 5});
  return all;
}

rc::Gen<Beside> cases() {
  const auto pass =
      gen::apply([](PassKind kind, PassMoment moment,
                    int ranks) { return BarePass{.kind = kind, .moment = moment, .ranks = ranks}; },
                 rc::gen::element(PassKind::module, PassKind::evaluation, PassKind::penalty,
                                  PassKind::parameter),
                 rc::gen::element(PassMoment::before, PassMoment::between, PassMoment::after),
                 rc::gen::inRange(1, 16));
  return gen::apply(
      [](int world, int steps, LossOf loss_of, std::vector<BarePass> passes, bool views,
         bool finds_unused, bool is_static, uint64_t seed) {
        return Beside{.world = {.size = world},
                      .steps = steps,
                      .loss_of = loss_of,
                      .passes = std::move(passes),
                      .options = {.find_unused_parameters = finds_unused,
                                  .gradient_as_bucket_view = views,
                                  .static_graph = is_static},
                      .seed = seed};
      },
      rc::gen::element(2, 4), rc::gen::inRange(1, 5),
      rc::gen::element(LossOf::output, LossOf::kept), gen::lists(2, pass),
      rc::gen::arbitrary<bool>(), rc::gen::arbitrary<bool>(), rc::gen::arbitrary<bool>(),
      rc::gen::inRange<uint64_t>(0, 1000));
}

bool has_pass_on_some_ranks(const Beside& c) {
  const int all = (1 << c.world.size) - 1;
  return std::any_of(c.passes.begin(), c.passes.end(), [all](const BarePass& pass) {
    const int ranks = pass.ranks & all;
    return ranks != 0 && ranks != all;
  });
}

}  // namespace

Scenario bare_passes_are_local() {
  return scenario<Beside>({
      .name = "accumulation.bare_passes_are_local",
      .claim = "A backward that runs nothing a synchronised forward recorded is local.",
      .in_full =
          "A backward that runs nothing a synchronised forward recorded is local, whenever and "
          "on whichever ranks it runs.",
      .exactness = "bit-equal",
      .source = "docs/semantics.md 0.10, 1.4",
      .not_covered = "worlds that are no powers of two",
      .usual_mistake = "DDP averages a backward of model.module in place of its own forward's: run "
                       "it before the forward, or add the losses and call backward() once.",
      .tags = {"accumulation"},
      .must_catch = {"bare_pass_taken_for_the_last_forwards"},
      .draws = 60,
      .start = {.world = {.size = 2}, .passes = {{}}},
      .every = every_small_one,
      .cases = cases(),
      .precondition = [](const Beside& c) { return why_averages_round(c.world); },
      .program = program,
      .checks = {bare_passes_add_up_locally, the_first_bare_pass_is_said_once},
      .labels = {{"four ranks", 0.15, [](const Beside& c) { return c.world.size == 4; }},
                 {"a loss of what the module kept", 0.1,
                  [](const Beside& c) { return c.loss_of == LossOf::kept; }},
                 {"a pass on some ranks alone", 0.4, has_pass_on_some_ranks}},
  });
}

}  // namespace lockstep::scenarios::accumulation_bare_passes_are_local
