// Ranks with unequally many inputs in a join: which averages they take part in, what those are
// divided by, and what each rank holds in the end.
//
// The model is one weight, which begins at 0, and the loss of the input x is w x, so that x is the
// gradient; every input of rank r is 6 (r + 1). An update subtracts the gradient.
#include "demos/make.h"
#include "harness/base/text.h"
#include "harness/rank/rank_context.h"
#include "harness/verdict/compare.h"
#include "harness/worlds/subject.h"
#include "reference/rounding.h"
#include "scenarios/cases/tensors.h"

#include <torch/torch.h>

#include <algorithm>
#include <set>

namespace lockstep::demos::uneven {

namespace {

using reports::number_text;

constexpr char kWithoutJoin[] = "without_join", kBeginsAgain[] = "begins_again";
constexpr const char *kStep = "step", *kEnd = "after the join";
constexpr const char *kGradient = "gradient", *kWeight = "weight";

struct Settings {
  int world = 3;
  std::vector<int> inputs{3, 1, 2};
  JoinKind divisor = JoinKind::world;
  auto operator<=>(const Settings&) const = default;
  static constexpr auto fields() {
    return std::tuple{
        field("world", &Settings::world, between(2, 6)),
        field("inputs", &Settings::inputs, at_most(6, between(0, 6))),
        field("divisor", &Settings::divisor, one_of<JoinKind::world, JoinKind::live>)};
  }
};
using UnevenCase = Staged<Settings>;

int inputs_of(const UnevenCase& c, int rank) {
  return c.settings.inputs[static_cast<size_t>(rank) % c.settings.inputs.size()];
}

int steps_of(const UnevenCase& c) {
  int most = 0;
  for (int rank = 0; rank < c.world.size; ++rank) most = std::max(most, inputs_of(c, rank));
  return most;
}

double input_of(int rank) {
  return 6 * (rank + 1);
}

std::vector<int> live_ranks(const UnevenCase& c, int step) {
  std::vector<int> live;
  for (int rank = 0; rank < c.world.size; ++rank)
    if (step < inputs_of(c, rank)) live.push_back(rank);
  return live;
}

class OneWeight : public Model {
 public:
  OneWeight() : weight_(register_parameter("weight", torch::zeros({1}))) {}
  at::Tensor forward(const at::Tensor& input) override { return input * weight_; }
  at::Tensor weight() const { return weight_; }

 private:
  at::Tensor weight_;
};

void program(const UnevenCase& c, RankContext& here) {
  const auto model = std::make_shared<OneWeight>();
  const auto replica = wrap(here, model, {});
  const auto input = torch::full({1}, input_of(here.rank()));
  const bool begins_again = c.mistake == kBeginsAgain && inputs_of(c, here.rank()) > 0;
  const int own = begins_again ? steps_of(c) : inputs_of(c, here.rank());
  const auto train = [&] {
    for (int step = 0; step < own; ++step) {
      here.enter(step, kStep);
      model->zero_grad();
      replica->backward(replica->forward(input).sum());
      here.record(kGradient, model->weight().grad());
      const torch::NoGradGuard no_grad;
      model->weight().sub_(model->weight().grad());
    }
  };
  c.mistake == kWithoutJoin ? train() : replica->join(c.settings.divisor, train);
  for (int step = own; step < steps_of(c); ++step) {
    here.enter(step, kStep);
    here.record(kGradient, torch::empty({0}));
  }
  here.enter(steps_of(c), kEnd);
  here.record(kWeight, model->weight());
}

// The sum over the ranks that have an input, as the join divides it. Exact: small whole numbers,
// and one division.
double average(const UnevenCase& c, int step) {
  const auto live = live_ranks(c, step);
  double sum = 0;
  for (const int rank : live) sum += input_of(rank);
  return sum /
         (c.settings.divisor == JoinKind::live ? static_cast<double>(live.size()) : c.world.size);
}

double average_of_all(const UnevenCase& c) {
  double sum = 0;
  for (int rank = 0; rank < c.world.size; ++rank) sum += input_of(rank);
  return sum / c.world.size;
}

double weight_of(const UnevenCase& c) {
  double weight = 0;
  for (int step = 0; step < steps_of(c); ++step) weight -= average(c, step);
  return weight;
}

TensorValue one(double value) {
  return scenarios::recorded(torch::full({1}, value, at::kDouble), at::kFloat);
}

// The error bound of a sum of so many float32 numbers and its division.
TensorValue bound(const UnevenCase& c, double value) {
  const double operations = c.world.size + 1 + steps_of(c);
  return one(2 * operations * reference::Format{.precision_bits = 24}.roundoff() * std::abs(value));
}

Findings steps_average_over_those_that_have_inputs(const UnevenCase& c, const History& h) {
  std::vector<Comparison> rows;
  for (int step = 0; step < steps_of(c); ++step) {
    const auto live = live_ranks(c, step);
    std::vector<TensorValue> expected(static_cast<size_t>(c.world.size),
                                      scenarios::recorded(torch::empty({0}), at::kFloat));
    auto bounds = expected;
    for (const int rank : live) {
      expected[static_cast<size_t>(rank)] = one(average(c, step));
      bounds[static_cast<size_t>(rank)] = bound(c, average(c, step));
    }
    rows.push_back(
        {.row = h.row({step, kStep}, kGradient), .expected = expected, .bounds = bounds});
  }
  return equal(
      "In each step the ranks with an input must hold the average, and the others take no part",
      rows);
}

Findings all_end_with_the_same_weight(const UnevenCase& c, const History& h) {
  const auto seen_again = [&c] {
    return Explanations{recorded_instead(
        {"inputs_seen_again", "ranks that are out of inputs begin again with their first ones"},
        {one(-average_of_all(c) * steps_of(c))})};
  };
  return equal("After the join all ranks must hold the weight of the ranks that trained longest",
               {{.row = h.row({steps_of(c), kEnd}, kWeight),
                 .expected = {one(weight_of(c))},
                 .bounds = {bound(c, weight_of(c))},
                 .explanations = seen_again}});
}

double held(const History& h, int step, size_t rank) {
  return as_doubles(h.row({step, kStep}, kGradient).by_rank[rank]).at(0);
}

bool took_part(const History& h, int step, size_t rank) {
  return !as_doubles(h.row({step, kStep}, kGradient).by_rank[rank]).empty();
}

std::vector<double> weights(const UnevenCase& c, const History& h) {
  std::vector<double> all;
  for (const auto& value : h.row({steps_of(c), kEnd}, kWeight).by_rank)
    all.push_back(as_doubles(value).at(0));
  return all;
}

reports::Picture grid_of(const UnevenCase& c, const History& h) {
  reports::Grid grid{.column_axis = "step",
                     .columns = {{"gradient in step", {}}, {"after the join", {"weight"}}},
                     .rows = {{reference_label(), {}}}};
  for (int rank = 0; rank < c.world.size; ++rank)
    grid.rows.push_back({reports::rank_label(rank), {}});
  const auto ranks = static_cast<size_t>(c.world.size);
  size_t shadowed = 0;
  for (int step = 0; step < steps_of(c); ++step) {
    grid.columns[0].names.push_back(std::to_string(step));
    grid.rows[0].cells.push_back({number_text(average(c, step))});
    for (size_t rank = 0; rank < ranks; ++rank) {
      const bool is_live = took_part(h, step, rank);
      shadowed += is_live ? 0 : 1;
      grid.rows[rank + 1].cells.push_back(is_live ? reports::Cell{number_text(held(h, step, rank))}
                                                  : reports::Cell{"", reports::Mark::missing});
    }
  }
  grid.rows[0].cells.push_back({number_text(weight_of(c))});
  const auto ends = weights(c, h);
  for (size_t rank = 0; rank < ranks; ++rank)
    grid.rows[rank + 1].cells.push_back(
        {number_text(ends[rank]), number_text(ends[rank]) == number_text(weight_of(c))
                                      ? reports::Mark::plain
                                      : reports::Mark::wrong});
  return {.title = "The gradient in each step, and the weight in the end",
          .caption = shadowed == 0
                         ? "every rank takes part in every step"
                         : counted(shadowed, "time") +
                               " a rank without an input sends zeros for a step of the others",
          .body = std::move(grid),
          .key = {{reports::Mark::missing, "out of inputs: it sends zeros"},
                  {reports::Mark::wrong, "not the weight of the rule"}}};
}

DemoStory show(const UnevenCase& c, const History& h) {
  std::set<std::string> ends;
  for (const double weight : weights(c, h)) ends.insert(number_text(weight));
  std::vector<std::string> counts;
  for (int rank = 0; rank < c.world.size; ++rank)
    counts.push_back(std::to_string(inputs_of(c, rank)));
  const int last = steps_of(c) - 1;
  const auto live = live_ranks(c, last);
  const auto first_live = static_cast<size_t>(live.front());
  const auto value = number_text(held(h, last, first_live));
  DemoStory story;
  story.finding =
      "Ranks with " + joined(counts, ", ") + " inputs: in step " + std::to_string(last) +
      " the gradient is " + value + ", and in the end " +
      (ends.size() == 1 ? "all hold the weight " + *ends.begin()
                        : "the ranks hold " + joined({ends.begin(), ends.end()}, ", ")) +
      (*ends.begin() == number_text(weight_of(c))
           ? "."
           : ", not the " + number_text(weight_of(c)) + " of the rule.");
  story.pictures = {grid_of(c, h)};
  std::vector<double> inputs;
  for (const int rank : live) inputs.push_back(input_of(rank));
  story.question = {"In step " + std::to_string(last) + " " + who(live, c.world.size) +
                        " has an input left: " + spaced(inputs) + ". The divisor is \"" +
                        word_of(c.settings.divisor) + "\". Which gradient does rank " +
                        std::to_string(live.front()) + " hold after it?",
                    value,
                    c.settings.divisor == JoinKind::world
                        ? "ranks that are out of inputs send zeros, and the sum is divided by all "
                          "ranks"
                        : "the sum is divided by the ranks that still have inputs"};
  return story;
}

}  // namespace

Demo demonstration() {
  return demo<Settings>(
      {.name = "uneven",
       .lesson = "ranks that run out of inputs, with join: what the others average",
       .text = "Every input of rank r is 6 (r + 1), and is its gradient. A rank that is out of "
               "inputs sends zeros for the steps of the others, until all are done; then all get "
               "the weight of a rank that trained longest.",
       .proof = "join.joinables_are_shadowed",
       .meanings = {"number of ranks", "how many inputs each rank has, read cyclically",
                    "the sum is divided by all ranks (world), or by those with inputs (live)"},
       .mistakes = {{kWithoutJoin, "the loop runs without join"},
                    {kBeginsAgain, "a rank that is out of inputs begins again with its first"}},
       .refusal = [](const Settings& s) -> std::string {
         if (s.inputs.empty()) return "inputs must name at least one number";
         const auto used = std::min(s.inputs.size(), static_cast<size_t>(s.world));
         if (std::all_of(s.inputs.begin(), s.inputs.begin() + static_cast<std::ptrdiff_t>(used),
                         [](int count) { return count == 0; }))
           return "one rank at least must have an input";
         return "";
       },
       .program = program,
       .checks = {all_end_with_the_same_weight, steps_average_over_those_that_have_inputs},
       .show = show});
}

}  // namespace lockstep::demos::uneven
