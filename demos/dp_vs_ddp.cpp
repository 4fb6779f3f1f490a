// DataParallel, one process with a replica for each device, beside DDP, one process for each: what
// each moves in a step, where the loss is computed, and whose buffer survives.
//
// The model multiplies four weights by the input and counts the samples in a buffer; sample i is i
// + 1, four times. DataParallel has no class in LibTorch for tensors on the CPU, so rank 0 does it
// by hand: every tensor that would travel to or from another device is copied, and counted.
#include "demos/make.h"
#include "harness/base/text.h"
#include "harness/rank/rank_context.h"
#include "harness/verdict/compare.h"
#include "harness/worlds/subject.h"
#include "scenarios/cases/tensors.h"

#include <torch/torch.h>

#include <algorithm>

namespace lockstep::demos::dp_vs_ddp {

namespace {

using reports::number_text;

constexpr char kWholeBatch[] = "whole_batch", kSummed[] = "loss_summed";
constexpr const char *kParallel = "DataParallel", *kDdp = "DDP";
constexpr const char *kGradient = "gradient", *kCounted = "counted", *kSamples = "samples",
                     *kLosses = "losses", *kMoved = "moved";
constexpr int kSteps = 3;  // in the last one DDP sends nothing but buffers and gradients
constexpr int64_t kWeights = 4;

struct Settings {
  int world = 4;
  int samples = 2;
  auto operator<=>(const Settings&) const = default;
  static constexpr auto fields() {
    return std::tuple{field("world", &Settings::world, between(2, 6)),
                      field("samples", &Settings::samples, between(1, 16))};
  }
};
using Compared = Staged<Settings>;

int64_t batch_size(const Compared& c) {
  return int64_t{c.settings.samples} * c.world.size;
}

// The samples [first, first + count), from 1 on.
at::Tensor samples(int64_t first, int64_t count) {
  return torch::arange(first + 1, first + count + 1, at::kFloat)
      .view({-1, 1})
      .repeat({1, kWeights});
}

at::Tensor part(const Compared& c, int rank) {
  return samples(rank * c.settings.samples, c.settings.samples);
}

class Counting : public Model {
 public:
  Counting()
      : weight_(register_parameter("weight", torch::ones({kWeights}))),
        counted_(register_buffer("counted", torch::zeros({1}))) {}
  at::Tensor forward(const at::Tensor& input) override { return applied(input, weight_, counted_); }
  static at::Tensor applied(const at::Tensor& input, const at::Tensor& weight,
                            at::Tensor& counted) {
    counted.detach().add_(static_cast<double>(input.size(0)));
    return (input * weight).sum(1);
  }
  at::Tensor weight() const { return weight_; }
  at::Tensor& counted() { return counted_; }

 private:
  at::Tensor weight_, counted_;
};

// The way between the first device and another one.
class Wire {
 public:
  at::Tensor moved(const at::Tensor& tensor) {
    auto copy = tensor.clone();
    const auto size = static_cast<int64_t>(tensor.nbytes());
    bytes_ += size;
    if (copy.requires_grad())
      copy.register_hook([this, size](const at::Tensor& gradient) {
        bytes_ += size;
        return gradient;
      });
    return copy;
  }
  int64_t bytes() const { return bytes_; }

 private:
  int64_t bytes_ = 0;
};

void train_data_parallel(const Compared& c, RankContext& here) {
  Counting model;
  for (int step = 0; step < kSteps; ++step) {
    model.zero_grad();
    std::vector<Wire> wires(static_cast<size_t>(c.world.size));
    std::vector<at::Tensor> weights{model.weight()}, counters{model.counted()}, outputs;
    for (size_t r = 1; r < wires.size(); ++r) {
      weights.push_back(wires[r].moved(model.weight()));
      counters.push_back(wires[r].moved(model.counted()));
    }
    for (size_t r = 0; r < wires.size(); ++r) {
      const auto input = part(c, static_cast<int>(r));
      outputs.push_back(r == 0 ? Counting::applied(input, weights[r], counters[r])
                               : wires[r].moved(Counting::applied(wires[r].moved(input), weights[r],
                                                                  counters[r])));
    }
    const auto output = torch::cat(outputs);
    output.mean().backward();
    here.enter(step, kParallel);
    here.record(kGradient, model.weight().grad());
    here.record(kCounted, model.counted());
    here.record(kSamples, std::vector<int64_t>(wires.size(), c.settings.samples));
    here.record(kLosses, std::vector<int64_t>{output.numel()});
    std::vector<int64_t> moved;
    for (const auto& wire : wires) moved.push_back(wire.bytes());
    here.record(kMoved, moved);
  }
}

void train_ddp(const Compared& c, RankContext& here) {
  const auto model = std::make_shared<Counting>();
  const auto replica = wrap(here, model, {});
  const auto input = c.mistake == kWholeBatch ? samples(0, batch_size(c)) : part(c, here.rank());
  for (int step = 0; step < kSteps; ++step) {
    model->zero_grad();
    here.enter(step, kDdp);
    const auto output = replica->forward(input);
    replica->backward(c.mistake == kSummed ? output.sum() : output.mean());
    here.record(kGradient, model->weight().grad());
    here.record(kCounted, model->counted());
    here.record(kSamples, std::vector<int64_t>{input.size(0)});
    here.record(kLosses, std::vector<int64_t>{output.numel()});
  }
}

void program(const Compared& c, RankContext& here) {
  train_data_parallel(c, here);
  train_ddp(c, here);
}

// The average of the samples: small whole numbers, or halves of them.
double average(const Compared& c) {
  return static_cast<double>(batch_size(c) + 1) / 2;
}

TensorValue gradient(double value) {
  return scenarios::recorded(torch::full({kWeights}, value, at::kDouble), at::kFloat);
}

// A mean of n exact numbers, times a sum over the ranks, each rounded once.
Comparison averaged(const Compared& c, const Row& row) {
  const double bound = 8 * average(c) * c.world.size / (1 << 24);
  return {.row = row,
          .expected = {gradient(average(c))},
          .bounds = {gradient(bound)},
          .explanations = [c] {
            return Explanations{recorded_instead(
                {"loss_summed",
                 "the gradient of a loss that is summed over a rank's samples, not "
                 "averaged"},
                {gradient(average(c) * c.settings.samples)})};
          }};
}

Findings both_have_the_gradient_of_one_process(const Compared& c, const History& h) {
  std::vector<Comparison> rows;
  for (int step = 0; step < kSteps; ++step)
    for (const char* way : {kParallel, kDdp})
      rows.push_back(averaged(c, h.row({step, way}, kGradient)));
  return equal("DataParallel and DDP must have the gradient of one process on the whole batch",
               rows);
}

Findings each_rank_has_its_part(const Compared& c, const History& h) {
  std::vector<Comparison> rows;
  for (int step = 0; step < kSteps; ++step)
    rows.push_back({.row = h.row({step, kDdp}, kSamples),
                    .expected = {int64_values({c.settings.samples})},
                    .explanations = [c] {
                      return Explanations{recorded_instead(
                          {"whole_batch_on_each_rank", "as many samples as the whole batch has"},
                          {int64_values({batch_size(c)})})};
                    }});
  return equal("Every rank must be fed its own part of the batch", rows);
}

double value_of(const History& h, const char* way, const char* name, size_t rank,
                size_t index = 0) {
  return as_doubles(h.row({kSteps - 1, way}, name).by_rank[rank]).at(index);
}

// The bytes that a rank sent in the last step, as its process group saw them.
int64_t bytes_sent(const History& h, int rank) {
  int64_t bytes = 0;
  for (const auto& each : h.collectives(rank, {kSteps - 1, kDdp}))
    bytes += each.elements * traits_of(each.dtype).bytes;
  return bytes;
}

reports::Picture table_of(const Compared& c, const History& h) {
  const std::vector<std::string> names{"samples", "losses", "bytes", "gradient", "counted"};
  reports::Grid grid{.column_axis = "last step",
                     .columns = {{"DataParallel: one process", names}, {"DDP: one each", names}},
                     .rows = {{reference_label(), {}}}};
  const auto total = std::to_string(batch_size(c));
  for (int way = 0; way < 2; ++way)
    for (const auto& text : {total, total, std::string("0"), number_text(average(c)),
                             std::to_string(batch_size(c) * kSteps)})
      grid.rows[0].cells.push_back({text});
  for (size_t rank = 0; rank < static_cast<size_t>(c.world.size); ++rank) {
    auto& row = grid.rows.emplace_back();
    row.label = reports::rank_label(static_cast<int>(rank));
    const auto add = [&](const std::string& text) { row.cells.push_back({text}); };
    const reports::Cell none{"", reports::Mark::missing};
    add(number_text(value_of(h, kParallel, kSamples, 0, rank)));
    if (rank == 0) {
      add(number_text(value_of(h, kParallel, kLosses, 0)));
      int64_t moved = 0;
      for (const auto bytes : as_integers(h.row({kSteps - 1, kParallel}, kMoved).by_rank[0]))
        moved += bytes;
      add(std::to_string(moved));
      add(number_text(value_of(h, kParallel, kGradient, 0)));
      add(number_text(value_of(h, kParallel, kCounted, 0)));
    } else {
      row.cells.push_back(none);
      add(number_text(value_of(h, kParallel, kMoved, 0, rank)));
      row.cells.insert(row.cells.end(), 2, none);
    }
    add(number_text(value_of(h, kDdp, kSamples, rank)));
    add(number_text(value_of(h, kDdp, kLosses, rank)));
    add(std::to_string(bytes_sent(h, static_cast<int>(rank))));
    add(number_text(value_of(h, kDdp, kGradient, rank)));
    add(number_text(value_of(h, kDdp, kCounted, rank)));
  }
  return {.title = "What each replica, and each rank, does in the last step",
          .caption = "after " + counted(kSteps, "step") +
                     " the first replica's buffer has counted " +
                     number_text(value_of(h, kParallel, kCounted, 0)) + " samples and rank 0's " +
                     number_text(value_of(h, kDdp, kCounted, 0)) + ", one process's " +
                     std::to_string(batch_size(c) * kSteps),
          .body = std::move(grid),
          .key = {{reports::Mark::missing, "none: only the first replica's is kept"}}};
}

DemoStory show(const Compared& c, const History& h) {
  DemoStory story;
  story.pictures = {table_of(c, h)};
  const auto& first = std::get<reports::Grid>(story.pictures[0].body).rows.at(1).cells;
  const auto whole = number_text(average(c));
  const bool both = first[3].text == whole && first[8].text == whole;
  story.finding = "DataParallel moves " + first[2].text + " bytes to and from its first device " +
                  "and computes " + first[1].text + " losses there; with DDP a rank sends " +
                  first[7].text + " bytes and computes " + first[6].text +
                  (both ? "; both have the gradient " + whole + " of one process."
                        : "; the gradients are " + first[3].text + " and " + first[8].text +
                              ", where one process has " + whole + ".");
  story.question = {"The batch of " + std::to_string(batch_size(c)) + " samples is shared by " +
                        std::to_string(c.world.size) +
                        " devices, and the model counts samples in a buffer. What "
                        "does the buffer of DataParallel's module hold after " +
                        std::to_string(kSteps) + " steps?",
                    first[4].text,
                    "the other replicas count in copies, which are thrown away after each forward"};
  return story;
}

}  // namespace

Demo demonstration() {
  return demo<Settings>(
      {.name = "dp_vs_ddp",
       .lesson = "DataParallel in one process beside DDP: bytes, losses and buffers",
       .text = "The model multiplies four weights by a sample and counts samples in a buffer. In "
               "every forward DataParallel scatters the batch, copies the model to the other "
               "devices and gathers their outputs; DDP broadcasts the buffer and averages "
               "gradients. Sample i is i + 1. Bytes are those that go to and from the first "
               "device, and those that a rank gives to its collectives.",
       .proof = "gradients.match_single_process",
       .meanings = {"devices: replicas of DataParallel, ranks of DDP",
                    "samples of each device in a step"},
       .mistakes = {{kWholeBatch, "every rank is fed the whole batch, as one process was"},
                    {kSummed, "the loss is summed over a rank's samples, not averaged"}},
       .program = program,
       .checks = {both_have_the_gradient_of_one_process, each_rank_has_its_part},
       .show = show});
}

}  // namespace lockstep::demos::dp_vs_ddp
