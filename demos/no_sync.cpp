// Gradient accumulation: what each rank's gradient is after every micro-batch, and which forwards
// and backwards communicate.
//
// The model is one weight w with the loss w x, and a buffer, so that there is something to
// broadcast; x of micro-batch m on rank r is (r + 1) (m + 1). All values are small whole numbers.
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

namespace lockstep::demos::no_sync {

namespace {

using reports::number_text;

constexpr char kNeverSynced[] = "last_in_no_sync", kLeftOut[] = "no_sync_left_out";

struct Settings {
  int world = 2;
  int micro_batches = 4;
  auto operator<=>(const Settings&) const = default;
  static constexpr auto fields() {
    return std::tuple{field("world", &Settings::world, between(2, 6)),
                      field("micro_batches", &Settings::micro_batches, between(1, 8))};
  }
};
using AccumulationCase = Staged<Settings>;

class WeightAndBuffer : public Model {
 public:
  WeightAndBuffer()
      : weight_(register_parameter("weight", torch::ones({1}))),
        forwards_(register_buffer("forwards", torch::zeros({1}))) {}
  at::Tensor forward(const at::Tensor& input) override {
    const torch::NoGradGuard no_grad;
    forwards_.add_(1);
    const torch::AutoGradMode gradients(true);
    return input * weight_;
  }
  at::Tensor weight() const { return weight_; }

 private:
  at::Tensor weight_, forwards_;
};

double sample(int rank, int micro_batch) {
  return (rank + 1) * (micro_batch + 1);
}

// True if the program runs this micro-batch inside no_sync.
bool is_local(const AccumulationCase& c, int micro_batch) {
  if (c.mistake == kLeftOut) return false;
  return c.mistake == kNeverSynced || micro_batch + 1 < c.settings.micro_batches;
}

void program(const AccumulationCase& c, RankContext& here) {
  const auto model = std::make_shared<WeightAndBuffer>();
  const auto replica = wrap(here, model, {});
  for (int m = 0; m < c.settings.micro_batches; ++m) {
    const auto pass = [&] {
      here.enter(m, "forward");
      const auto loss = replica->forward(torch::full({1}, sample(here.rank(), m))).sum();
      here.enter(m, "backward");
      replica->backward(loss);
    };
    is_local(c, m) ? replica->no_sync(pass) : pass();
    here.enter(m, "after backward");
    here.record("gradient", model->weight().grad());
  }
}

// The sum of a rank's samples up to a micro-batch, and its average over the ranks.
double local_sum(int rank, int micro_batch) {
  double sum = 0;
  for (int m = 0; m <= micro_batch; ++m) sum += sample(rank, m);
  return sum;
}

reference::Rounded average(const AccumulationCase& c, int micro_batch) {
  reference::Arithmetic arithmetic({.precision_bits = 24, .exact = false});
  std::vector<reference::Rounded> by_rank;
  for (int rank = 0; rank < c.world.size; ++rank)
    by_rank.push_back(
        reference::given(torch::full({1}, local_sum(rank, micro_batch), at::kDouble)));
  return arithmetic.average(by_rank);
}

std::vector<TensorValue> local_sums(const AccumulationCase& c, int micro_batch) {
  std::vector<TensorValue> out;
  for (int rank = 0; rank < c.world.size; ++rank)
    out.push_back(scenarios::recorded(torch::full({1}, local_sum(rank, micro_batch), at::kDouble),
                                      at::kFloat));
  return out;
}

// How many collectives of this kind a rank issued in a phase of a micro-batch.
size_t count_of(const History& h, int rank, int micro_batch, const char* phase, const char* op) {
  const auto all = h.collectives(rank, {micro_batch, phase});
  return static_cast<size_t>(
      std::count_if(all.begin(), all.end(), [&](const Collective& each) { return each.op == op; }));
}

Findings gradients_add_up_and_are_averaged_last(const AccumulationCase& c, const History& h) {
  std::vector<Comparison> rows;
  for (int m = 0; m < c.settings.micro_batches; ++m) {
    const auto row = h.row({m, "after backward"}, "gradient");
    const auto own = local_sums(c, m);
    if (m + 1 < c.settings.micro_batches) {
      const auto averaged = scenarios::written(average(c, m), at::kFloat).value;
      rows.push_back(
          {.row = row, .expected = own, .explanations = [averaged] {
             return Explanations{recorded_instead(
                 {"reduced_inside_no_sync", "the average over the ranks, inside no_sync"},
                 {averaged})};
           }});
      continue;
    }
    const auto [value, bound] = scenarios::written(average(c, m), at::kFloat);
    rows.push_back({.row = row, .expected = {value}, .bounds = {bound}, .explanations = [own] {
                      return Explanations{not_reduced(own)};
                    }});
  }
  return equal(
      "Gradients must add up on each rank inside no_sync, and be averaged by the first backward "
      "outside it",
      rows);
}

Findings only_the_last_backward_communicates(const AccumulationCase& c, const History& h) {
  for (int rank = 0; rank < c.world.size; ++rank)
    for (int m = 0; m < c.settings.micro_batches; ++m) {
      const auto count = count_of(h, rank, m, "backward", "allreduce");
      const bool is_last = m + 1 == c.settings.micro_batches;
      if ((count > 0) != is_last)
        return {{"Only the backward outside no_sync must all-reduce", "reduced_inside_no_sync",
                 "micro-batch " + std::to_string(m),
                 "rank " + std::to_string(rank) + " issued " + counted(count, "all-reduce") +
                     " in the backward of micro-batch " + std::to_string(m) + " of " +
                     std::to_string(c.settings.micro_batches)}};
    }
  return {};
}

double gradient_of(const History& h, int micro_batch, size_t rank) {
  return as_doubles(h.row({micro_batch, "after backward"}, "gradient").by_rank[rank]).at(0);
}

reports::Picture strip_of(const AccumulationCase& c, const History& h) {
  reports::Grid grid{
      .column_axis = "micro-batch", .columns = {{"", {}}}, .rows = {{reference_label(), {}}}};
  for (int rank = 0; rank < c.world.size; ++rank)
    grid.rows.push_back({reports::rank_label(rank), {}});
  grid.rows.push_back({{"buffer broadcasts"}, {}});
  grid.rows.push_back({{"all-reduces"}, {}});
  const auto ranks = static_cast<size_t>(c.world.size);
  for (int m = 0; m < c.settings.micro_batches; ++m) {
    grid.columns[0].names.push_back(std::to_string(m));
    grid.rows[0].cells.push_back({number_text(average(c, m).value.item<double>())});
    for (size_t rank = 0; rank < ranks; ++rank)
      grid.rows[rank + 1].cells.push_back({number_text(gradient_of(h, m, rank))});
    grid.rows[ranks + 1].cells.push_back(
        {std::to_string(count_of(h, 0, m, "forward", "broadcast"))});
    grid.rows[ranks + 2].cells.push_back(
        {std::to_string(count_of(h, 0, m, "backward", "allreduce"))});
  }
  std::vector<std::string> with_broadcast;
  for (int m = 0; m < c.settings.micro_batches; ++m)
    if (count_of(h, 0, m, "forward", "broadcast") > 0) with_broadcast.push_back(std::to_string(m));
  return {.title = "The gradient after each backward, and what was sent for it",
          .caption = (with_broadcast.size() == 1
                          ? "only forward " + with_broadcast[0] + " broadcasts"
                          : "forwards " + joined(with_broadcast, ", ") + " broadcast") +
                     " buffers: a forward does if the one before it was outside no_sync, and the "
                     "first always does",
          .body = std::move(grid)};
}

DemoStory show(const AccumulationCase& c, const History& h) {
  const int last = c.settings.micro_batches - 1;
  size_t reduces = 0;
  for (int m = 0; m <= last; ++m) reduces += count_of(h, 0, m, "backward", "allreduce");
  std::vector<std::string> held;
  for (size_t rank = 0; rank < static_cast<size_t>(c.world.size); ++rank)
    held.push_back(number_text(gradient_of(h, last, rank)));
  const bool all_equal = std::set<std::string>(held.begin(), held.end()).size() == 1;
  const auto whole = number_text(average(c, last).value.item<double>());
  DemoStory story;
  story.finding =
      "After " + counted(last + 1, "backward") + " and " + counted(reduces, "all-reduce") + " " +
      (all_equal ? "every rank holds " + held.front() : "the ranks hold " + joined(held, ", ")) +
      ", where one process has " + whole +
      (all_equal && held.front() == whole && reduces > 1 ? ": 1 all-reduce is enough." : ".");
  story.pictures = {strip_of(c, h)};
  story.question = {
      "Before its last backward each rank r has a sum of its own samples, " +
          number_text(last > 0 ? gradient_of(h, last - 1, 0) : 0) + " on rank 0 and " +
          number_text(last > 0 ? gradient_of(h, last - 1, 1) : 0) +
          " on rank 1; the last samples "
          "are " +
          number_text(sample(0, last)) + " and " + number_text(sample(1, last)) +
          (c.world.size == 2 ? "" : ", and so on by rank") + ". What does rank 0 hold after it?",
      number_text(gradient_of(h, last, 0)),
      "the first backward outside no_sync averages all that has added up, not its own "
      "gradient alone"};
  return story;
}

}  // namespace

Demo demonstration() {
  return demo<Settings>(
      {.name = "no_sync",
       .lesson = "gradients that add up over micro-batches, and who communicates when",
       .text = "The sample of micro-batch m on rank r is (r + 1) (m + 1), and its gradient is the "
               "sample. All micro-batches but the last run inside no_sync. The last two rows "
               "count what rank 0 sent in each forward and backward.",
       .proof = "accumulation.no_sync_accumulates",
       .meanings = {"number of ranks", "micro-batches before an optimizer's step"},
       .mistakes = {{kNeverSynced, "the last micro-batch runs inside no_sync too"},
                    {kLeftOut, "no micro-batch runs inside no_sync"}},
       .program = program,
       .checks = {gradients_add_up_and_are_averaged_last, only_the_last_backward_communicates},
       .show = show});
}

}  // namespace lockstep::demos::no_sync
