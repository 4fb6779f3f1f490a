// How the time of a step grows with the number of ranks, with gradients sent during the backward
// pass and after it. Ranks of one world train in groups of 1, 2, 4, ..., one after another.
// The input is rank + 1 everywhere, so that every gradient is kBatch (rank + 1).
#include "demos/make.h"
#include "demos/timed.h"
#include "harness/base/text.h"
#include "harness/verdict/compare.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

namespace lockstep::demos::scale {
namespace {

constexpr char kAtTheEnd[] = "sent_at_the_end", kHalves[] = "halves";
constexpr int kLayers = 8;
// The elements of the inputs of all operations in a layer's backward pass.
constexpr int64_t kElementsOfLayer = 1'072;

struct Settings {
  int world = 1024;
  int bucket = 2;
  int backward_ms = 100;
  int gradient_megabytes = 102;
  int latency_us = 20;
  int megabytes_per_second = 12'500;
  auto operator<=>(const Settings&) const = default;
  static constexpr auto fields() {
    return std::tuple{
        field("world", &Settings::world, between(1, kWorldMost)),
        field("bucket", &Settings::bucket, between(1, kLayers)),
        field("backward_ms", &Settings::backward_ms, between(1, 1000)),
        field("gradient_megabytes", &Settings::gradient_megabytes, between(10, 500)),
        field("latency_us", &Settings::latency_us, between(0, 1000)),
        field("megabytes_per_second", &Settings::megabytes_per_second, between(100, 100'000))};
  }
};
using ScaleCase = Staged<Settings>;

constexpr const char *kOverlap = "with overlap", *kAfter = "after backward";
constexpr std::array kWays{kOverlap, kAfter};

std::vector<int> sizes_of(const ScaleCase& c) {
  std::vector<int> sizes;
  for (int size = 1; size <= c.world.size; size *= 2) sizes.push_back(size);
  return sizes;
}

Moment shown_in(const char* way, int size) {
  return {0, std::string(way) + ", " + counted(size, "rank")};
}

// A link of the world takes a microsecond for a byte. All times are shown as so many times as long
// that the few bytes of the model take as long as those of the one that it stands for.
double time_scale(const Settings& s) {
  return 1e6 * s.gradient_megabytes / (kLayers * TimedLayers::kGradientBytes) /
         s.megabytes_per_second;
}

Timing prices(const Settings& s) {
  return {.latency_ns = std::llround(1000 * s.latency_us / time_scale(s)),
          .megabytes_per_second = 1,
          .picoseconds_per_element =
              std::llround(1e9 * s.backward_ms / (kLayers * kElementsOfLayer) / time_scale(s))};
}

Group group_for(const ScaleCase& c, RankContext& here, int size) {
  if (c.mistake != kHalves || size == 1) return here.group_of(ranks_from(0, size));
  return here.group_of(ranks_from(here.rank() < size / 2 ? 0 : size / 2, size / 2));
}

void train(const ScaleCase& c, RankContext& here, const char* way, int size) {
  const auto group = group_for(c, here, size);
  const auto input = torch::full({TimedLayers::kBatch, TimedLayers::kWidth}, here.rank() + 1.0);
  const auto model = std::make_shared<TimedLayers>(kLayers);
  const bool is_late = way == kAfter || c.mistake == kAtTheEnd;
  Sender sender(group, *model, buckets_of(kLayers, c.settings.bucket),
                Sender::When::after_backward);
  const int64_t cap = c.settings.bucket * TimedLayers::kGradientBytes;
  const auto replica = is_late ? nullptr : wrap(here, model, {.bucket_caps_bytes = {cap}}, group);
  run_timed(
      here, 0, shown_in(way, size).phase,
      {.group = group,
       .model = *model,
       .forward = [&] { return (replica ? replica->forward(input) : model->forward(input)).sum(); },
       .backward =
           [&](const at::Tensor& loss) {
             if (replica) return replica->backward(loss);
             loss.backward();
             sender.finish();
           },
       .on_gradient =
           [&](size_t layer, const at::Tensor& gradient) {
             if (is_late) sender.arrived(layer, gradient);
           }});
}

void program(const ScaleCase& c, RankContext& here) {
  for (const int size : sizes_of(c)) {
    if (here.rank() >= size) continue;
    for (const char* way : kWays) train(c, here, way, size);
  }
}

Findings gradients_are_averages(const ScaleCase& c, const History& h) {
  std::vector<Comparison> rows;
  for (const int size : sizes_of(c))
    for (const char* way : kWays) {
      Row row{.at = shown_in(way, size), .name = "gradients", .by_rank = {}};
      for (int rank = 0; rank < size; ++rank) row.by_rank.push_back(gradients_in(h, rank, row.at));
      const auto halves = [size] {
        std::vector<TensorValue> by_rank;
        for (int rank = 0; rank < size; ++rank)
          by_rank.push_back(
              gradients_of(kLayers, (rank < size / 2 ? 1 + size / 2 : 1 + size / 2 + size) / 2.0));
        return Explanations{recorded_instead(
            {"average_over_a_half", "every rank holds the average over its half of the group"},
            by_rank)};
      };
      rows.push_back({.row = std::move(row),
                      .expected = {gradients_of(kLayers, (size + 1) / 2.0)},
                      .explanations = halves});
    }
  return equal("Every gradient must be the average over all ranks of the group", rows);
}

Findings buckets_leave_at_once(const ScaleCase& c, const History& h) {
  Findings found;
  for (const int size : sizes_of(c))
    if (found.empty())
      found = full_buckets_leave_at_once(h, ranks_from(0, size), shown_in(kOverlap, size),
                                         c.settings.bucket);
  return found;
}

// A step of the slowest rank, and what rank 0 sent in it.
struct Step {
  int64_t ns = 0;
  Shares shares;
};
Step step_of(const ScaleCase& c, const History& h, const char* way, int size) {
  int64_t longest = 0;
  const auto at = shown_in(way, size);
  for (int rank = 0; rank < size; ++rank) {
    const auto times = times_in(h, rank, at);
    longest = std::max(longest, times.end - times.begin);
  }
  const auto shares = shares_of(times_in(h, 0, at), carried_in(h, ranks_from(0, size), at).front());
  const auto scaled = [&](int64_t ns) {
    return std::llround(static_cast<double>(ns) * time_scale(c.settings));
  };
  return {scaled(longest), {scaled(shares.carried), scaled(shares.hidden)}};
}

struct Measured {
  std::vector<int> sizes;
  std::array<std::vector<Step>, kWays.size()> steps;  // by way, then by size
  // A percentage of the speed of one rank, whose gradients nobody has to copy.
  double percent(size_t way, size_t size) const {
    return 100 * static_cast<double>(steps[0].front().ns) /
           static_cast<double>(steps[way][size].ns);
  }
  // The number of ranks at which overlap gains the most.
  size_t most_gained() const {
    size_t best = 0;
    for (size_t i = 0; i < sizes.size(); ++i)
      if (percent(0, i) - percent(1, i) > percent(0, best) - percent(1, best)) best = i;
    return best;
  }
};
Measured measured(const ScaleCase& c, const History& h) {
  Measured out{.sizes = sizes_of(c), .steps = {}};
  for (size_t way = 0; way < kWays.size(); ++way)
    for (const int size : out.sizes) out.steps[way].push_back(step_of(c, h, kWays[way], size));
  return out;
}

std::string percent_text(double percent) {
  return std::to_string(std::llround(percent)) + " %";
}

reports::Picture curves_of(const Measured& m) {
  reports::Lines lines{.column_axis = "ranks",
                       .value_axis = "% of the speed of one rank",
                       .columns = {},
                       .series = {},
                       .range = {0, 100}};
  for (const int size : m.sizes) lines.columns.push_back(with_commas(size));
  for (size_t way = 0; way < kWays.size(); ++way) {
    auto& series = lines.series.emplace_back();
    series.label = {kWays[way]};
    for (size_t i = 0; i < m.sizes.size(); ++i) series.values.push_back(m.percent(way, i));
  }
  const auto last = m.sizes.size() - 1;
  return {.title = "The speed of a rank among so many",
          .caption = "on " + counted(m.sizes.back(), "rank") + " the speed is " +
                     percent_text(m.percent(0, last)) + " with overlap and " +
                     percent_text(m.percent(1, last)) +
                     " without: the latency of a ring grows with the ranks, and no longer fits "
                     "behind the backward pass",
          .body = std::move(lines)};
}

std::string milliseconds(int64_t ns) {
  const int64_t tenths = (ns + 50'000) / 100'000;
  return with_commas(tenths / 10) + "." + std::to_string(tenths % 10);
}

reports::Picture table_of(const Measured& m) {
  reports::Grid grid{.column_axis = "virtual ms",
                     .columns = {{kOverlap, {"step", "sending", "hidden", "exposed"}},
                                 {kAfter, {"step", "exposed"}}},
                     .rows = {}};
  for (size_t i = 0; i < m.sizes.size(); ++i) {
    const auto &overlap = m.steps[0][i], &after = m.steps[1][i];
    grid.rows.push_back({i == 0 ? reports::Label{"1 rank", reports::kReference}
                                : reports::Label{counted(m.sizes[i], "rank")},
                         {{milliseconds(overlap.ns)},
                          {milliseconds(overlap.shares.carried)},
                          {milliseconds(overlap.shares.hidden)},
                          {milliseconds(overlap.shares.exposed())},
                          {milliseconds(after.ns)},
                          {milliseconds(after.shares.exposed())}}});
  }
  const auto is_hidden = [](const auto& step) { return step.shares.hidden > 0; };
  const auto most = m.most_gained();
  return {.title = "The time of a step, and of sending",
          .caption = std::ranges::none_of(m.steps[0], is_hidden)
                         ? "no sending is hidden: overlap gains nothing"
                         : "on " + counted(m.sizes[most], "rank") + " " +
                               milliseconds(m.steps[0][most].shares.hidden) + " of " +
                               milliseconds(m.steps[0][most].shares.carried) +
                               " ms of sending are hidden; sending after backward copies every "
                               "gradient first, on one rank too",
          .body = std::move(grid)};
}

DemoStory show(const ScaleCase& c, const History& h) {
  const auto m = measured(c, h);
  const auto most = m.most_gained(), last = m.sizes.size() - 1;
  const auto said = [&](size_t size) {
    return counted(m.sizes[size], "rank") + (m.sizes[size] == 1 ? " keeps " : " keep ") +
           percent_text(m.percent(0, size)) +
           " of the speed of one where gradients travel during "
           "the backward pass, and " +
           percent_text(m.percent(1, size)) + " where they travel after it";
  };
  DemoStory story;
  story.finding = said(most);
  if (most != last)
    story.finding += "; " + counted(m.sizes[last], "rank") + " keep " +
                     percent_text(m.percent(0, last)) + " and " + percent_text(m.percent(1, last));
  story.finding += ".";
  story.pictures = {curves_of(m), table_of(m)};
  story.question = {
      "An all-reduce sends its parts round a ring. How many messages, one after another, does it "
      "take on " +
          counted(m.sizes.back(), "rank") + "?",
      std::to_string(2 * (m.sizes.back() - 1)),
      "W - 1 messages until every part is summed, and W - 1 until all ranks have it: each costs a "
      "latency, so that the time grows with the ranks, however few bytes there are"};
  return story;
}

}  // namespace

Demo demonstration() {
  return demo<Settings>(
      {.name = "scale",
       .lesson = "step time and efficiency from 1 to 1,024 ranks, in virtual time",
       .text =
           "Groups of 1, 2, 4, ... ranks of one simulated world train the same small model of 8 "
           "layers: with DDP, whose buckets travel during the backward pass, and with the same "
           "buckets sent after it. Times are scaled so that its gradients take as long as the 102 "
           "MB of ResNet50; a bucket of two layers is then PyTorch's 25 MiB. The ranks are one "
           "ring of links with 100 Gbit/s and 20 us. Each rank has a batch of its own.",
       .proof = "",
       .meanings = {"number of ranks of the largest group, a power of two",
                    "gradients that close a bucket", "milliseconds of a backward pass, about",
                    "megabytes of all gradients together",
                    "microseconds that a message takes at least", "bandwidth of a link"},
       .mistakes = {{kAtTheEnd,
                     "the program sends its buckets after the backward pass in both ways"},
                    {kHalves, "each half of a group averages by itself"}},
       .prices = prices,
       .refusal =
           [](const Settings& s) {
             return std::has_single_bit(static_cast<unsigned>(s.world))
                        ? std::string()
                        : "world " + std::to_string(s.world) + " is no power of two";
           },
       .program = program,
       .checks = {gradients_are_averages, buckets_leave_at_once},
       .show = show});
}

}  // namespace lockstep::demos::scale
