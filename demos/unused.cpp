// Parameters that only some ranks use: which are used where, and which gradient each rank holds
// after a backward.
//
// The model has three branches of one weight each; a rank uses one of them, with the input
// rank + 1, which is the gradient of its weight.
#include "demos/make.h"
#include "harness/base/text.h"
#include "harness/rank/rank_context.h"
#include "harness/verdict/compare.h"
#include "harness/worlds/subject.h"
#include "reference/rounding.h"
#include "scenarios/cases/tensors.h"

#include <torch/torch.h>

namespace lockstep::demos::unused {

namespace {

using reports::number_text;

constexpr char kNotMarked[] = "not_marked", kByUsers[] = "divided_by_users";
constexpr int kSteps = 2;
const std::vector<std::string> kBranches{"a", "b", "c"};

struct Settings {
  int world = 3;
  std::vector<int> uses{0, 1, 1};
  auto operator<=>(const Settings&) const = default;
  static constexpr auto fields() {
    return std::tuple{field("world", &Settings::world, between(2, 6)),
                      field("uses", &Settings::uses, at_most(6, between(0, 2)))};
  }
};
using UnusedCase = Staged<Settings>;

int branch_of(const UnusedCase& c, int rank) {
  return c.settings.uses[static_cast<size_t>(rank) % c.settings.uses.size()];
}

int users_of(const UnusedCase& c, int branch) {
  int users = 0;
  for (int rank = 0; rank < c.world.size; ++rank) users += branch_of(c, rank) == branch ? 1 : 0;
  return users;
}

class ThreeBranches : public Model {
 public:
  explicit ThreeBranches(int used) : used_(used) {
    for (const auto& name : kBranches)
      weights_.push_back(register_parameter(name, torch::ones({1})));
  }
  at::Tensor forward(const at::Tensor& input) override {
    return input * weights_[static_cast<size_t>(used_)];
  }
  const std::vector<at::Tensor>& weights() const { return weights_; }

 private:
  const int used_;
  std::vector<at::Tensor> weights_;
};

// A user's own averaging, which divides by the ranks that had a gradient.
void average_over_users(const UnusedCase& c, RankContext& here, const ThreeBranches& model) {
  for (int branch = 0; branch < static_cast<int>(kBranches.size()); ++branch) {
    auto weight = model.weights()[static_cast<size_t>(branch)];
    std::vector<at::Tensor> gradient{weight.grad().defined() ? weight.grad()
                                                             : torch::zeros_like(weight)};
    here.group()->allreduce(gradient)->wait();
    if (const int users = users_of(c, branch); users > 0)
      weight.mutable_grad() = gradient.front() / users;
  }
}

void program(const UnusedCase& c, RankContext& here) {
  const auto model = std::make_shared<ThreeBranches>(branch_of(c, here.rank()));
  const auto input = torch::full({1}, here.rank() + 1, at::kFloat);
  const auto replica = wrap(here, model, {.find_unused_parameters = c.mistake != kNotMarked});
  for (int step = 0; step < kSteps; ++step) {
    model->zero_grad(/*set_to_none=*/true);
    here.enter(step, "backward");
    if (c.mistake == kByUsers) {
      model->forward(input).sum().backward();
      average_over_users(c, here, *model);
    } else {
      replica->backward(replica->forward(input).sum());
    }
    here.enter(step, "after backward");
    for (size_t branch = 0; branch < kBranches.size(); ++branch)
      here.record(kBranches[branch], scenarios::gradient_or_nothing(model->weights()[branch]));
  }
}

// The inputs of the ranks that use a branch, and zero for the others.
std::vector<reference::Rounded> parts_of(const UnusedCase& c, int branch) {
  std::vector<reference::Rounded> parts;
  for (int rank = 0; rank < c.world.size; ++rank)
    parts.push_back(reference::given(
        torch::full({1}, branch_of(c, rank) == branch ? rank + 1 : 0, at::kDouble)));
  return parts;
}

reference::Rounded average(const UnusedCase& c, int branch) {
  return reference::Arithmetic({.precision_bits = 24, .exact = false}).average(parts_of(c, branch));
}

Findings users_and_others_hold_the_average(const UnusedCase& c, const History& h) {
  Findings out;
  for (int step = 0; step < kSteps; ++step) {
    std::vector<Comparison> rows;
    for (int branch = 0; branch < static_cast<int>(kBranches.size()); ++branch) {
      const auto row = h.row({step, "after backward"}, kBranches[static_cast<size_t>(branch)]);
      const int users = users_of(c, branch);
      if (users == 0) {
        rows.push_back(
            {.row = row,
             .expected = {scenarios::recorded(torch::empty({0}, at::kDouble), at::kFloat)}});
        continue;
      }
      const auto right = average(c, branch);
      const auto [value, bound] = scenarios::written(right, at::kFloat);
      const auto by_users = scenarios::recorded(right.value * c.world.size / users, at::kFloat);
      rows.push_back(
          {.row = row, .expected = {value}, .bounds = {bound}, .explanations = [=] {
             return Explanations{recorded_instead(
                 {"divided_by_its_users", "the sum divided by the number of ranks that used it"},
                 {by_users})};
           }});
    }
    out += equal("What some ranks use must be averaged over all, and what nobody uses left alone",
                 rows);
  }
  return out;
}

std::string held(const History& h, size_t branch, size_t rank) {
  const auto values =
      as_doubles(h.row({kSteps - 1, "after backward"}, kBranches[branch]).by_rank[rank]);
  return values.empty() ? "none" : number_text(values.front());
}

reports::Picture matrix_of(const UnusedCase& c, const History& h) {
  reports::Grid grid{.column_axis = "parameter",
                     .columns = {{"used with the input", kBranches}, {"gradient", kBranches}},
                     .rows = {{reference_label(), {}}}};
  for (int branch = 0; branch < static_cast<int>(kBranches.size()); ++branch) {
    std::vector<int64_t> inputs;
    for (int rank = 0; rank < c.world.size; ++rank)
      if (branch_of(c, rank) == branch) inputs.push_back(rank + 1);
    grid.rows[0].cells.push_back({spaced(inputs)});
  }
  for (int branch = 0; branch < static_cast<int>(kBranches.size()); ++branch)
    grid.rows[0].cells.push_back(
        {users_of(c, branch) == 0 ? "none" : number_text(average(c, branch).value.item<double>())});
  std::vector<std::string> left_alone;
  for (int rank = 0; rank < c.world.size; ++rank) {
    auto& row = grid.rows.emplace_back();
    row.label = reports::rank_label(rank);
    for (int branch = 0; branch < static_cast<int>(kBranches.size()); ++branch)
      row.cells.push_back(branch_of(c, rank) == branch ? reports::Cell{std::to_string(rank + 1)}
                                                       : reports::Cell{"", reports::Mark::missing});
    for (size_t branch = 0; branch < kBranches.size(); ++branch)
      row.cells.push_back({held(h, branch, static_cast<size_t>(rank))});
  }
  for (size_t branch = 0; branch < kBranches.size(); ++branch)
    if (held(h, branch, 0) == "none") left_alone.push_back(kBranches[branch]);
  return {.title = "Which rank uses which parameter, and the gradients after the backward",
          .caption =
              left_alone.empty()
                  ? "every parameter is used by some rank, and has a gradient on all"
                  : joined(left_alone, " and ") + ": used by no rank, and rank 0 holds no gradient",
          .body = std::move(grid),
          .key = {{reports::Mark::missing, "not used on this rank"}}};
}

DemoStory show(const UnusedCase& c, const History& h) {
  // The first branch that some ranks use and some do not, or the first of all.
  size_t seen = 0;
  for (size_t branch = kBranches.size(); branch-- > 0;)
    if (const int users = users_of(c, static_cast<int>(branch)); users > 0 && users < c.world.size)
      seen = branch;
  std::vector<int> users, same;
  for (int rank = 0; rank < c.world.size; ++rank) {
    if (branch_of(c, rank) == static_cast<int>(seen)) users.push_back(rank);
    if (held(h, seen, static_cast<size_t>(rank)) == held(h, seen, 0)) same.push_back(rank);
  }
  const auto whole = number_text(average(c, static_cast<int>(seen)).value.item<double>());
  const auto value = held(h, seen, 0);
  DemoStory story;
  story.finding = "Parameter " + kBranches[seen] + " is used by " + who(users, c.world.size) +
                  ", and " + who(same, c.world.size) + (same.size() == 1 ? " holds" : " hold") +
                  " the gradient " + value +
                  (value == whole ? ": the sum divided by " + std::to_string(c.world.size) +
                                        ", with zero from ranks that did not use it."
                                  : ", not the " + whole + " of one process.");
  story.pictures = {matrix_of(c, h)};
  std::vector<std::string> uses;
  for (int rank = 0; rank < c.world.size; ++rank)
    uses.push_back("rank " + std::to_string(rank) + " uses " +
                   kBranches[static_cast<size_t>(branch_of(c, rank))] + " with input " +
                   std::to_string(rank + 1));
  story.question = {joined(uses, ", ") +
                        ". An input is the gradient of its parameter. Which "
                        "gradient of " +
                        kBranches[seen] + " does rank 0 hold after DDP's backward?",
                    value,
                    "the ranks' gradients are added, with zero from ranks that did not use the "
                    "parameter, and divided by the number of all ranks"};
  return story;
}

}  // namespace

Demo demonstration() {
  return demo<Settings>(
      {.name = "unused",
       .lesson = "parameters that only some ranks use, and the gradients they get",
       .text = "The model has three parameters, and each rank uses one of them, with its rank + "
               "1 as input. With find_unused_parameters a rank's backward counts what it did not "
               "use as zero.",
       .proof = "unused.are_averaged_over_all_ranks",
       .meanings = {"number of ranks",
                    "which parameter each rank uses, 0 for a, 1 for b, 2 for c; read cyclically"},
       .mistakes = {{kNotMarked, "find_unused_parameters is off"},
                    {kByUsers, "the program averages itself, over the ranks with a gradient"}},
       .refusal =
           [](const Settings& s) {
             return s.uses.empty() ? std::string("uses must name at least one parameter")
                                   : std::string();
           },
       .program = program,
       .checks = {users_and_others_hold_the_average},
       .show = show});
}

}  // namespace lockstep::demos::unused
