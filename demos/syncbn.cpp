// Batch normalisation over one rank's batch and over all ranks' batches, beside one process: its
// outputs, its running_mean and the gradients of its inputs, after two equal forwards.
//
// The loss is the first sample's output, and yet one process gives the samples of other ranks a
// gradient: they move the average that the first is normalised by.
#include "demos/layers.h"
#include "demos/make.h"
#include "harness/base/text.h"
#include "harness/verdict/compare.h"
#include "reference/batch_norm.h"
#include "scenarios/cases/tensors.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace lockstep::demos::syncbn {

namespace {

constexpr char kNotConverted[] = "not_converted", kEvaluates[] = "eval_on_one_rank";
constexpr int kForwards = 2;
struct Settings {
  int world = 2;
  std::vector<int> samples{3};
  int64_t eps_log2 = -10;
  int64_t momentum_log2 = -1;
  auto operator<=>(const Settings&) const = default;
  static constexpr auto fields() {
    return std::tuple{field("world", &Settings::world, between(2, 4)),
                      field("samples", &Settings::samples, at_most(4, between(2, 4))),
                      field("eps_log2", &Settings::eps_log2, between(-20, 4)),
                      field("momentum_log2", &Settings::momentum_log2, between(-3, 0))};
  }
};
using NormCase = Staged<Settings>;

// A way to normalise, by the phase of its records.
struct Way {
  const char* name;
  const char* label;
  bool broadcasts, is_sync;
};
constexpr Way kWays[] = {{"local", "local", false, false},
                         {"broadcast", "broadcast", true, false},
                         {"sync", "SyncBN", true, true}};

int samples_of(const NormCase& c, int rank) {
  return c.settings.samples[static_cast<size_t>(rank) % c.settings.samples.size()];
}

int first_sample(const NormCase& c, int rank) {
  int first = 0;
  for (int before = 0; before < rank; ++before) first += samples_of(c, before);
  return first;
}

// Sample i of the whole batch is 2 i.
at::Tensor batch(const NormCase& c, int rank) {
  const int first = first_sample(c, rank);
  return torch::arange(2 * first, 2 * (first + samples_of(c, rank)), 2, at::kFloat).view({-1, 1});
}

// The gradient of the loss by a rank's outputs: 1 at the first sample of all.
at::Tensor cotangent(const NormCase& c, int rank) {
  const auto all = torch::arange(samples_of(c, rank)).view({-1, 1});
  return (all + rank).eq(0).to(at::kFloat);
}

NormOptions norm_of(const NormCase& c) {
  return {
      .channels = 1, .eps_log2 = c.settings.eps_log2, .momentum_log2 = c.settings.momentum_log2};
}

void train(const NormCase& c, RankContext& here, const Way& way) {
  const auto layer = way.is_sync && c.mistake != kNotConverted
                         ? sync_batch_norm(here, norm_of(c))
                         : std::shared_ptr<Model>(std::make_shared<PlainNorm>(norm_of(c)));
  const auto model = std::make_shared<Watched>(layer);
  const auto replica = wrap(here, model, {.broadcast_buffers = way.broadcasts});
  if (way.is_sync && c.mistake == kEvaluates && here.rank() == here.size() - 1) model->eval();
  for (int step = 0; step < kForwards; ++step) {
    const auto input = batch(c, here.rank()).requires_grad_();
    const auto output = replica->forward(input);
    replica->backward((output * cotangent(c, here.rank())).sum());
    here.enter(step, way.name);
    here.record("output", output);
    here.record("running_mean", running_mean(*model));
    here.record("gradient", input.grad());
  }
}

void program(const NormCase& c, RankContext& here) {
  for (const auto& way : kWays) train(c, here, way);
}

// The values that a rank must record.
struct Expected {
  reference::Rounded output, running_mean, gradient;
};
using ByRank = std::vector<Expected>;

// The last step's; every rank sees its own batch alone, or all of them.
ByRank expected(const NormCase& c, bool broadcasts, bool sees_all) {
  const double factor = std::ldexp(1.0, static_cast<int>(c.settings.momentum_log2));
  const reference::BatchNorm layer{.weight = torch::ones({1}, at::kDouble),
                                   .bias = torch::zeros({1}, at::kDouble),
                                   .eps = std::ldexp(1.0, static_cast<int>(c.settings.eps_log2))};
  std::vector<reference::BatchPart> all;
  for (int rank = 0; rank < c.world.size; ++rank)
    all.push_back({batch(c, rank).to(at::kDouble), cotangent(c, rank).to(at::kDouble)});
  ByRank out(static_cast<size_t>(c.world.size));
  for (auto& rank : out) rank.running_mean = reference::given(torch::zeros({1}, at::kDouble));
  for (int step = 0; step < kForwards; ++step) {
    if (broadcasts)
      for (auto& rank : out) rank.running_mean = reference::Rounded(out.front().running_mean);
    for (size_t rank = 0; rank < out.size(); ++rank) {
      const auto seen = reference::normalised(
          layer, sees_all ? all : std::vector<reference::BatchPart>{all[rank]}, 24);
      const size_t part = sees_all ? rank : 0;
      out[rank] = {seen.outputs[part],
                   reference::moved_by(out[rank].running_mean, seen.average, factor, 24),
                   seen.input_gradients[part]};
    }
  }
  return out;
}

using Member = reference::Rounded Expected::*;
constexpr std::pair<const char*, Member> kRecords[] = {{"output", &Expected::output},
                                                       {"running_mean", &Expected::running_mean},
                                                       {"gradient", &Expected::gradient}};

Findings judged(const NormCase& c, const History& h, const Way& way, const std::string& rule) {
  const auto right = expected(c, way.broadcasts, way.is_sync);
  const auto alone = expected(c, way.broadcasts, false);
  std::vector<Comparison> rows;
  for (const auto& [name, member] : kRecords) {
    rows.push_back({.row = h.row({kForwards - 1, way.name}, name), .expected = {}});
    std::vector<TensorValue> local;
    for (size_t rank = 0; rank < right.size(); ++rank) {
      const auto [value, bound] = scenarios::written(right[rank].*member, at::kFloat);
      rows.back().expected.push_back(value);
      rows.back().bounds.push_back(bound);
      local.push_back(scenarios::written(alone[rank].*member, at::kFloat).value);
    }
    if (way.is_sync)
      rows.back().explanations = [local] {
        return Explanations{recorded_instead(
            {"local_statistics", "values computed from the statistics of the rank's own batch"},
            local)};
      };
  }
  return equal(rule, rows);
}

Findings plain_layers_see_their_own_batch(const NormCase& c, const History& h) {
  const std::string rule = "A plain BatchNorm must normalise by the rank's own batch";
  auto out = judged(c, h, kWays[0], rule + ", and keep its own running_mean");
  out += judged(c, h, kWays[1], rule + ", and begin with rank 0's running_mean");
  return out;
}

Findings sync_batch_norm_sees_all(const NormCase& c, const History& h) {
  return judged(c, h, kWays[2], "SyncBatchNorm must give what one process has on the whole batch");
}

// Three digits: enough to tell the ways apart.
std::string short_text(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.3g", std::abs(value) < 1e-6 ? 0 : value);
  return text;
}

std::vector<double> numbers_of(const at::Tensor& values) {
  const auto flat = values.contiguous().view(-1);
  return {flat.data_ptr<double>(), flat.data_ptr<double>() + flat.numel()};
}

// Cells of a row whose numbers begin at sample `first` of `count`.
void add_cells(reports::Grid::Row& row, const std::vector<double>& values, int first, int count) {
  for (int sample = 0; sample < count; ++sample) {
    const int own = sample - first;
    row.cells.push_back({own >= 0 && own < static_cast<int>(values.size())
                             ? short_text(values[static_cast<size_t>(own)])
                             : ""});
  }
}

reports::Picture grid_of(const NormCase& c, const History& h, const std::string& caption) {
  const int count = first_sample(c, c.world.size);
  reports::Grid grid{.column_axis = "sample", .columns = {}, .rows = {}};
  std::vector<std::string> samples;
  for (int sample = 0; sample < count; ++sample) samples.push_back(std::to_string(sample));
  grid.columns = {{"output", samples}, {"running_mean", {""}}, {"gradient of the input", samples}};
  const auto whole = expected(c, false, true);
  reports::Grid::Row reference{reference_label(), {}};
  for (const auto& [name, member] : kRecords) {
    std::vector<double> values;
    for (const auto& rank : whole)
      for (const double value : numbers_of((rank.*member).value)) values.push_back(value);
    add_cells(reference, values, 0, member == &Expected::running_mean ? 1 : count);
  }
  grid.rows.push_back(reference);
  for (const auto& way : kWays)
    for (int rank = 0; rank < c.world.size; ++rank) {
      reports::Grid::Row row{{std::string(way.label) + ", rank " + std::to_string(rank), rank}, {}};
      for (const auto& [name, member] : kRecords) {
        const auto values =
            as_doubles(h.row({kForwards - 1, way.name}, name).by_rank[static_cast<size_t>(rank)]);
        const bool is_mean = member == &Expected::running_mean;
        add_cells(row, values, is_mean ? 0 : first_sample(c, rank), is_mean ? 1 : count);
      }
      grid.rows.push_back(row);
    }
  return {.title = "After two equal forwards and backwards",
          .caption = caption,
          .body = std::move(grid)};
}

// The largest distance of a way's records from those of one process, where it is more than what
// float32 may round.
double distance_of(const NormCase& c, const History& h, const Way& way) {
  const auto whole = expected(c, false, true);
  double most = 0;
  for (const auto& [name, member] : kRecords) {
    const auto row = h.row({kForwards - 1, way.name}, name);
    for (size_t rank = 0; rank < whole.size(); ++rank) {
      const auto [value, bound] = scenarios::written(whole[rank].*member, at::kFloat);
      const auto right = as_doubles(value), allowed = as_doubles(bound);
      const auto held = as_doubles(row.by_rank[rank]);
      for (size_t i = 0; i < held.size(); ++i)
        if (const auto off = std::abs(held[i] - right.at(i)); off > allowed.at(i))
          most = std::max(most, off);
    }
  }
  return most;
}

DemoStory show(const NormCase& c, const History& h) {
  const auto off = [&](const Way& way) {
    const auto distance = distance_of(c, h, way);
    return distance == 0 ? std::string("has the numbers of one process")
                         : "is off by up to " + short_text(distance);
  };
  const auto last = static_cast<size_t>(c.world.size - 1);
  const auto held = [&](const Way& way, const char* name) {
    return as_doubles(h.row({kForwards - 1, way.name}, name).by_rank[last]);
  };
  const auto text_of_value = [](const std::vector<double>& values) {
    std::vector<std::string> texts;
    for (const double value : values) texts.push_back(short_text(value));
    return joined(texts, " ");
  };
  const auto rank = "rank " + std::to_string(last);
  DemoStory story;
  story.finding = "SyncBatchNorm " + off(kWays[2]) + "; a plain BatchNorm " + off(kWays[0]) +
                  ", and with broadcast_buffers " + off(kWays[1]) + ".";
  story.pictures = {grid_of(c, h,
                            rank + "'s samples get the gradients " +
                                text_of_value(held(kWays[2], "gradient")) +
                                " from rank 0's loss with SyncBatchNorm, and " +
                                text_of_value(held(kWays[0], "gradient")) + " without it")};
  story.question = {
      "With a plain BatchNorm the outputs of rank 0 are " +
          text_of_value(as_doubles(h.row({kForwards - 1, kWays[0].name}, "output").by_rank[0])) +
          ", of samples 0, 2, 4, ... What is the first output of " + rank +
          ", whose samples are larger?",
      short_text(held(kWays[0], "output").front()),
      "each rank subtracts the average of its own batch and divides by its own spread, so that "
      "ranks with different data can have equal outputs"};
  return story;
}

}  // namespace

Demo demonstration() {
  return demo<Settings>(
      {.name = "syncbn",
       .lesson = "batch normalisation over one rank's batch, and over all of them",
       .text = "Sample i of the whole batch is 2 i, and the loss is the output of sample 0 alone. "
               "Each row is a rank: with a plain BatchNorm (local), with its buffers broadcast as "
               "well, and with SyncBatchNorm.",
       .proof = "sync_batch_norm.matches_single_process",
       .meanings = {"number of ranks", "the size of each rank's batch, read cyclically",
                    "what is added to the variance, as a power of two",
                    "the weight of a new batch in running_mean, as a power of two"},
       .mistakes = {{kNotConverted, "the model's BatchNorm is not converted to SyncBatchNorm"},
                    {kEvaluates, "the last rank has called eval(), and the others have not"}},
       .refusal =
           [](const Settings& s) {
             return s.samples.empty() ? std::string("samples must name at least one size")
                                      : std::string();
           },
       .program = program,
       .checks = {plain_layers_see_their_own_batch, sync_batch_norm_sees_all},
       .show = show});
}

}  // namespace lockstep::demos::syncbn
