// In a join in which backwards step the optimizer, what a rank had added up in a window that it did
// not end stays in its gradients, and steps nothing.
//
// All ranks add up micro-batches in windows of one length, the last of each synchronised, and have
// any number of them: a rank may run out in the middle of a window. From then on it shadows its
// peers' passes, in which it takes no part: neither may its leftovers move a parameter or count in
// an average, nor may a pass that it shadows step or clear them. Gradients are whole multiples of
// the world size and the learning rate is 1, so parameters are whole numbers and nothing rounds.
#include "harness/base/values.h"
#include "harness/cases/generators.h"
#include "harness/cases/scenario.h"
#include "harness/rank/rank_context.h"
#include "harness/verdict/compare.h"
#include "harness/worlds/subject.h"
#include "scenarios/cases/labels.h"
#include "scenarios/cases/tensors.h"
#include "scenarios/join/windows.h"

#include <torch/torch.h>

#include <algorithm>

namespace lockstep::scenarios::join_leftovers_stay {
namespace {

constexpr const char *kEnd = "after the join", *kNext = "after one more pass",
                     *kGradient = "gradient", *kWeight = "weight";
constexpr int64_t kElements = 3;

int most_inputs(const Windows& c) {
  int most = 0;
  for (int rank = 0; rank < c.world.size; ++rank) most = std::max(most, inputs_of(c, rank));
  return most;
}

int leftovers_of(const Windows& c, int rank) {
  return inputs_of(c, rank) % c.window;
}

bool ends_a_window(const Windows& c, int input) {
  return (input + 1) % c.window == 0;
}

// The gradient that a micro-batch adds.
at::Tensor gradient_of(const Windows& c, int input, int rank) {
  return whole_numbers({.seed = c.seed,
                        .stream = Stream::input,
                        .rank = static_cast<uint64_t>(rank),
                        .step = static_cast<uint64_t>(input)},
                       /*most=*/3, {kElements}) *
         c.world.size;
}

// The gradient of the pass behind the join.
at::Tensor gradient_behind(const Windows& c, int rank) {
  return gradient_of(c, most_inputs(c), rank);
}

class Weight : public Model {
 public:
  Weight() : weight_(register_parameter(kWeight, torch::zeros({kElements}))) {}
  at::Tensor forward(const at::Tensor& input) override { return (weight_ * input).sum(); }
  const at::Tensor& weight() const { return weight_; }

 private:
  at::Tensor weight_;
};

void program(const Windows& c, RankContext& here) {
  const auto model = std::make_shared<Weight>();
  const auto replica = wrap(here, model, {});
  const auto optimizer =
      std::make_shared<torch::optim::SGD>(model->parameters(), torch::optim::SGDOptions(1.0));
  if (c.steps_in_backward) replica->step_in_backward(optimizer);
  here.enter(0, "joined");
  replica->join(JoinKind::world, [&] {
    for (int input = 0; input < inputs_of(c, here.rank()); ++input) {
      const auto pass = [&] {
        replica->backward(replica->forward(gradient_of(c, input, here.rank()).to(at::kFloat)));
      };
      if (!ends_a_window(c, input)) {
        replica->no_sync(pass);
        continue;
      }
      pass();
      if (c.steps_in_backward) continue;
      optimizer->step();
      optimizer->zero_grad();
    }
  });
  here.enter(0, kEnd);
  here.record(kGradient, gradient_or_nothing(model->weight()));
  here.record(kWeight, model->weight().detach());
  replica->backward(replica->forward(gradient_behind(c, here.rank()).to(at::kFloat)));
  if (!c.steps_in_backward) optimizer->step();
  here.enter(1, kNext);
  here.record(kWeight, model->weight().detach());
}

// The gradient of the window that a micro-batch ends.
at::Tensor window_of(const Windows& c, int last, int rank) {
  auto sum = torch::zeros({kElements}, at::kDouble);
  for (int input = last - c.window + 1; input <= last; ++input) sum += gradient_of(c, input, rank);
  return sum;
}

at::Tensor leftovers(const Windows& c, int rank) {
  if (leftovers_of(c, rank) == 0) return torch::empty({0}, at::kDouble);
  auto sum = torch::zeros({kElements}, at::kDouble);
  for (int input = inputs_of(c, rank) - leftovers_of(c, rank); input < inputs_of(c, rank); ++input)
    sum += gradient_of(c, input, rank);
  return sum;
}

at::Tensor trained_weight(const Windows& c) {
  auto weight = torch::zeros({kElements}, at::kDouble);
  for (int input = 0; input < most_inputs(c); ++input) {
    if (!ends_a_window(c, input)) continue;
    for (int rank = 0; rank < c.world.size; ++rank)
      if (input < inputs_of(c, rank)) weight -= window_of(c, input, rank) / c.world.size;
  }
  return weight;
}

Findings leftovers_stay_and_step_nothing(const Windows& c, const History& h) {
  std::vector<TensorValue> own, none;
  for (int rank = 0; rank < c.world.size; ++rank) {
    own.push_back(recorded(leftovers(c, rank), at::kFloat));
    none.push_back(recorded(torch::empty({0}), at::kFloat));
  }
  return equal(
      "A rank that runs out of inputs in a window must keep what it had added up, and step nothing "
      "by it",
      {{.row = h.row({0, kEnd}, kGradient),
        .expected = own,
        .explanations =
            [none] {
              return Explanations{recorded_instead(
                  {"leftovers_cleared", "no gradient: a pass of its peers has cleared it"}, none)};
            }},
       {.row = h.row({0, kEnd}, kWeight), .expected = {recorded(trained_weight(c), at::kFloat)}}});
}

Findings the_next_pass_averages_leftovers(const Windows& c, const History& h) {
  auto weight = trained_weight(c);
  for (int rank = 0; rank < c.world.size; ++rank) {
    auto own = gradient_behind(c, rank);
    if (leftovers_of(c, rank) > 0) own = own + leftovers(c, rank);
    weight = weight - own / c.world.size;
  }
  return equal("The first averaged pass behind a join must average what ranks had left over, too",
               {{.row = h.row({1, kNext}, kWeight), .expected = {recorded(weight, at::kFloat)}}});
}

std::vector<Windows> every_small_one() {
  std::vector<Windows> all;
  for (const auto& inputs : std::vector<std::vector<int>>{{1, 4}, {4, 1}, {3, 6}, {2, 3}, {0, 4}})
    for (const int window : {1, 2, 3})
      for (const bool in_backward : {true, false})
        all.push_back({.world = {.size = 2},
                       .window = window,
                       .inputs = inputs,
                       .steps_in_backward = in_backward,
                       .seed = 1});
  return all;
}

rc::Gen<Windows> cases() {
  using gen::set;
  using rc::gen::element;
  using rc::gen::inRange;
  return gen::build<Windows>(
      set(&Windows::world, gen::build<WorldSpec>(set(&WorldSpec::size, element(2, 3, 3, 4)))),
      set(&Windows::window, element(1, 2, 2, 3, 4)),
      set(&Windows::inputs, gen::lists(2, 4, inRange(0, 9))),
      set(&Windows::steps_in_backward, rc::gen::weightedElement<bool>({{2, true}, {1, false}})),
      set(&Windows::seed, inRange<uint64_t>(0, 1 << 20)));
}

// A rank with leftovers shadows a pass.
bool has_leftovers(const Windows& c) {
  const int last = most_inputs(c) / c.window * c.window;
  for (int rank = 0; rank < c.world.size; ++rank)
    if (leftovers_of(c, rank) > 0 && inputs_of(c, rank) < last) return true;
  return false;
}

}  // namespace

Scenario leftovers_stay() {
  return scenario<Windows>({
      .name = "join.leftovers_stay",
      .claim = "In a join a rank whose inputs end within a window keeps what it had added up.",
      .in_full = "In a join a rank that runs out of inputs in the middle of a window keeps what it "
                 "had added up in its gradients, takes no part in averages with it, and steps "
                 "nothing by it, also where backwards step the optimizer, until all make a pass "
                 "behind the join.",
      .exactness = "bit-equal",
      .source = "docs/semantics.md 1.4 (step_in_backward) and 5.2",
      .not_covered = "gradients that are views of buckets, optimizers with state",
      .usual_mistake = "stepping at the end of each averaged pass, whoever has inputs.",
      .tags = {"join", "accumulation", "optimizers"},
      .must_catch = {"shadowed_pass_steps"},
      .draws = 60,
      .start = {.world = {.size = 2}},
      .every = every_small_one,
      .cases = cases(),
      .precondition = [](const Windows& c) { return why_shares_round(c.world); },
      .program = program,
      .checks = {leftovers_stay_and_step_nothing, the_next_pass_averages_leftovers},
      .labels = {{"three ranks and more", 0.5, has_three_ranks<Windows>},
                 {"leftovers of a rank that shadows", 0.2, has_leftovers},
                 {"steps in backward", 0.5, [](const Windows& c) { return c.steps_in_backward; }}},
  });
}

}  // namespace lockstep::scenarios::join_leftovers_stay
