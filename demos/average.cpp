// Shows the average of gradients where the ranks' batches differ in size: the average of the ranks'
// averages, which one process on the whole batch does not have.
//
// The model is one weight w, and the loss of a sample x is w x, so that a gradient is an average of
// samples: sample i of the whole batch is i + 1.
#include "demos/make.h"
#include "harness/base/text.h"
#include "harness/rank/rank_context.h"
#include "harness/verdict/compare.h"
#include "harness/worlds/subject.h"
#include "reference/rounding.h"
#include "scenarios/cases/tensors.h"

#include <torch/torch.h>

namespace lockstep::demos::average {

namespace {

using reports::number_text;

constexpr char kNotDivided[] = "not_divided", kNotWrapped[] = "not_wrapped";

struct Settings {
  int world = 2;
  std::vector<int> samples{3, 1};
  auto operator<=>(const Settings&) const = default;
  static constexpr auto fields() {
    return std::tuple{field("world", &Settings::world, between(2, 6)),
                      field("samples", &Settings::samples, at_most(6, between(1, 8)))};
  }
};
using AverageCase = Staged<Settings>;

int samples_of(const AverageCase& c, int rank) {
  const auto& samples = c.settings.samples;
  return samples[static_cast<size_t>(rank) % samples.size()];
}

int first_sample(const AverageCase& c, int rank) {
  int first = 0;
  for (int before = 0; before < rank; ++before) first += samples_of(c, before);
  return first;
}

at::Tensor batch(const AverageCase& c, int rank) {
  const int first = first_sample(c, rank);
  return torch::arange(first + 1, first + samples_of(c, rank) + 1, at::kFloat).view({-1, 1});
}

class OneWeight : public Model {
 public:
  OneWeight() : weight_(register_parameter("weight", torch::ones({1, 1}))) {}
  at::Tensor forward(const at::Tensor& input) override { return input.matmul(weight_); }
  at::Tensor weight() const { return weight_; }

 private:
  at::Tensor weight_;
};

const std::vector<std::string> kWays{"average", "weighted"};

// The factor of a rank's loss that makes the average over ranks that of the whole batch.
double weight_of(const AverageCase& c, int rank) {
  return static_cast<double>(c.world.size) * samples_of(c, rank) / first_sample(c, c.world.size);
}

// The gradient on this rank after a backward with DDP, or with the planted mistake instead of it.
at::Tensor gradient(const AverageCase& c, RankContext& here, double weight) {
  const auto model = std::make_shared<OneWeight>();
  const auto input = batch(c, here.rank());
  if (c.mistake == kNoMistake) {
    const auto replica = wrap(here, model, {});
    replica->backward(replica->forward(input).mean() * weight);
    return model->weight().grad();
  }
  (model->forward(input).mean() * weight).backward();
  std::vector<at::Tensor> gradients{model->weight().grad()};
  if (c.mistake == kNotDivided) here.group()->allreduce(gradients)->wait();
  return gradients.front();
}

void program(const AverageCase& c, RankContext& here) {
  const auto model = std::make_shared<OneWeight>();
  model->forward(batch(c, here.rank())).mean().backward();
  here.enter(0, "own");
  here.record("gradient", model->weight().grad());
  for (size_t way = 0; way < kWays.size(); ++way) {
    const auto held = gradient(c, here, way == 0 ? 1 : weight_of(c, here.rank()));
    here.enter(0, kWays[way]);
    here.record("gradient", held);
  }
}

// The average of the samples of the ranks [first, last), which are begin + 1, ..., end.
double average_of(const AverageCase& c, int first, int last) {
  const int begin = first_sample(c, first), end = first_sample(c, last);
  return (begin + 1 + end) / 2.0;
}

double average_of_averages(const AverageCase& c) {
  double sum = 0;
  for (int rank = 0; rank < c.world.size; ++rank) sum += average_of(c, rank, rank + 1);
  return sum / c.world.size;
}

// Each of n + W + 3 operations rounds by at most half a unit in the last place of terms that are
// all positive, so the error is at most as many times the format's roundoff of the result.
Comparison compared(const AverageCase& c, const Row& row, double value) {
  const auto roundoff = reference::Format{.precision_bits = 24}.roundoff();
  const double operations = first_sample(c, c.world.size) + c.world.size + 3;
  const auto [right, bound] =
      scenarios::written({torch::full({1, 1}, value, at::kDouble),
                          torch::full({1, 1}, 2 * operations * roundoff * value, at::kDouble)},
                         at::kFloat);
  std::vector<TensorValue> own;
  for (int rank = 0; rank < c.world.size; ++rank) {
    const auto factor = row.at.phase == kWays[1] ? weight_of(c, rank) : 1.0;
    own.push_back(scenarios::recorded(
        torch::full({1, 1}, average_of(c, rank, rank + 1) * factor, at::kDouble), at::kFloat));
  }
  return {.row = row, .expected = {right}, .bounds = {bound}, .explanations = [own] {
            return Explanations{sum_not_average("gradients"), not_reduced(own)};
          }};
}

Findings ddp_averages_the_ranks_gradients(const AverageCase& c, const History& h) {
  return equal("Every rank must hold the average of the ranks' gradients",
               {compared(c, h.row({0, kWays[0]}, "gradient"), average_of_averages(c))});
}

Findings weighted_losses_give_one_process(const AverageCase& c, const History& h) {
  return equal(
      "Losses that are weighted by the rank's part of the batch must give every rank the gradient "
      "of one process",
      {compared(c, h.row({0, kWays[1]}, "gradient"), average_of(c, 0, c.world.size))});
}

std::vector<double> recorded_in(const History& h, const std::string& phase) {
  std::vector<double> values;
  for (const auto& value : h.row({0, phase}, "gradient").by_rank)
    values.push_back(as_doubles(value).at(0));
  return values;
}

// As far as a picture shows it.
bool is_close(double a, double b) {
  return number_text(a) == number_text(b);
}

DemoStory show(const AverageCase& c, const History& h) {
  const double whole = average_of(c, 0, c.world.size);
  reports::Bars bars{.value_axis = "gradient of the weight",
                     .groups = {{"", {{reference_label(), whole, number_text(whole)}}}}};
  const auto add = [&](const std::string& title, const std::string& phase, bool marks) {
    auto& group = bars.groups.emplace_back();
    group.title = title;
    const auto values = recorded_in(h, phase);
    for (size_t rank = 0; rank < values.size(); ++rank)
      group.bars.push_back(
          {reports::rank_label(static_cast<int>(rank)), values[rank], number_text(values[rank]),
           marks && !is_close(values[rank], whole) ? reports::Mark::wrong : reports::Mark::plain});
  };
  add("of the rank's own batch", "own", false);
  add("averaged over the ranks", kWays[0], true);
  add("averaged, each loss weighted by its part of the batch", kWays[1], true);
  const double plain = recorded_in(h, kWays[0]).front();
  const double weighted = recorded_in(h, kWays[1]).front();
  std::vector<std::string> sizes;
  for (int rank = 0; rank < c.world.size; ++rank)
    sizes.push_back(std::to_string(samples_of(c, rank)));
  const auto text_of_value = [&](double value) {
    return number_text(value) + (is_close(value, whole)
                                     ? ", which one process has"
                                     : ", not the " + number_text(whole) + " of one process");
  };
  DemoStory story;
  story.finding = "Batches of " + joined(sizes, ", ") + " samples: rank 0 holds the gradient " +
                  text_of_value(plain) + "; with weighted losses " + text_of_value(weighted) + ".";
  story.pictures = {
      {.title = "The gradient, before and after it is averaged",
       .caption = is_close(weighted, whole)
                      ? "weighting each loss by W n / N gives the gradient of one "
                        "process"
                      : "even weighted losses do not give the gradient of one process",
       .body = std::move(bars),
       .key = {{reports::Mark::wrong, "not the gradient of one process"}}}};
  story.question = {"The ranks' own gradients are " + spaced(recorded_in(h, "own")) +
                        ". What does rank 0 hold after DDP's backward?",
                    number_text(plain),
                    "DDP adds the ranks' gradients and divides by the number of ranks, whatever "
                    "the sizes of their batches"};
  return story;
}

}  // namespace

Demo demonstration() {
  return demo<Settings>(
      {.name = "average",
       .lesson = "what the average of gradients is where batches differ in size",
       .text = "The samples are 1, 2, 3, ..., and the loss is the average of weight times sample, "
               "so that a gradient is an average of samples. The first bar is one process with "
               "the whole batch.",
       .proof = "gradients.match_single_process",
       .meanings = {"number of ranks", "the size of each rank's batch, read cyclically"},
       .mistakes = {{kNotDivided, "the program sums the gradients itself and does not divide"},
                    {kNotWrapped, "the model is not wrapped: every rank trains alone"}},
       .refusal =
           [](const Settings& s) {
             return s.samples.empty() ? std::string("samples must name at least one size")
                                      : std::string();
           },
       .program = program,
       .checks = {ddp_averages_the_ranks_gradients, weighted_losses_give_one_process},
       .show = show});
}

}  // namespace lockstep::demos::average
