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
#include <limits>

namespace lockstep::demos::scale {
namespace {
using reports::counted;

constexpr char kAtTheEnd[] = "sent_at_the_end", kHalves[] = "halves";
constexpr int kLayers = 8;
// The elements of the inputs of all operations in a layer's backward pass.
constexpr int64_t kElementsOfLayer = 1'072;

struct Settings {
  int world = 1024;
  int bucket = 2;
  int backward_ms = 100;
  int latency_us = 149;
  int megabytes_per_second = 454;
  auto operator<=>(const Settings&) const = default;
  static constexpr auto fields() {
    return std::tuple{
        field("world", &Settings::world, between(1, kWorldMost)),
        field("bucket", &Settings::bucket, between(1, kLayers)),
        field("backward_ms", &Settings::backward_ms, between(1, 1000)),
        field("latency_us", &Settings::latency_us, between(0, 1000)),
        field("megabytes_per_second", &Settings::megabytes_per_second, between(1, 100'000))};
  }
};
using ScaleCase = Staged<Settings>;

constexpr const char *kOverlap = "with overlap", *kAfter = "after backward";
constexpr std::array kWays{kOverlap, kAfter};

// Li et al. 2020, section 5.3, report of ResNet50 on 256 GPUs: a step takes twice as long as on one
// GPU over NCCL, and three times as long over Gloo.
constexpr int kPublishedSize = 256;
constexpr std::array kPublished{std::pair{"Li et al. 2020, ResNet50 over NCCL", 50.0},
                                std::pair{"Li et al. 2020, ResNet50 over Gloo", 100.0 / 3}};

std::vector<int> sizes_of(const ScaleCase& c) {
  std::vector<int> sizes;
  for (int size = 1; size <= c.world.size; size *= 2) sizes.push_back(size);
  return sizes;
}

Moment shown_in(const char* way, int size) {
  return {0, std::string(way) + ", " + counted(size, "rank")};
}

Timing prices(const Settings& s) {
  return {.latency_ns = 1000 * int64_t{s.latency_us},
          .megabytes_per_second = s.megabytes_per_second,
          .picoseconds_per_element =
              int64_t{s.backward_ms} * 1'000'000'000 / (kLayers * kElementsOfLayer)};
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

// A step of the slowest rank.
struct Step {
  int64_t ns = 0;
  Shares shares;  // of rank 0
};
Step step_of(const History& h, const char* way, int size) {
  Step step;
  const auto at = shown_in(way, size);
  for (int rank = 0; rank < size; ++rank) {
    const auto times = times_in(h, rank, at);
    step.ns = std::max(step.ns, times.end - times.begin);
  }
  step.shares = shares_of(times_in(h, 0, at), carried_in(h, ranks_from(0, size), at).front());
  return step;
}

struct Measured {
  std::vector<int> sizes;
  std::array<std::vector<Step>, kWays.size()> steps;  // by way, then by size
  double percent(size_t way, size_t size) const {
    return 100 * static_cast<double>(steps[way].front().ns) /
           static_cast<double>(steps[way][size].ns);
  }
  // The most ranks that work at half the speed of one, or faster.
  int most_at_half(size_t way) const {
    int most = 1;
    for (size_t i = 0; i < sizes.size(); ++i)
      if (percent(way, i) >= 50) most = sizes[i];
    return most;
  }
};
Measured measured(const ScaleCase& c, const History& h) {
  Measured out{.sizes = sizes_of(c), .steps = {}};
  for (size_t way = 0; way < kWays.size(); ++way)
    for (const int size : out.sizes) out.steps[way].push_back(step_of(h, kWays[way], size));
  return out;
}

std::string percent_text(double percent) {
  return std::to_string(std::llround(percent)) + " %";
}

reports::Picture curves_of(const Measured& m) {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  reports::Lines lines{.column_axis = "ranks",
                       .value_axis = "efficiency, %",
                       .columns = {},
                       .series = {},
                       .range = {0, 100}};
  for (const int size : m.sizes) lines.columns.push_back(with_commas(size));
  for (size_t way = 0; way < kWays.size(); ++way) {
    auto& series = lines.series.emplace_back();
    series.label = {kWays[way]};
    for (size_t i = 0; i < m.sizes.size(); ++i) series.values.push_back(m.percent(way, i));
  }
  std::string beside;
  const auto at = std::find(m.sizes.begin(), m.sizes.end(), kPublishedSize) - m.sizes.begin();
  if (static_cast<size_t>(at) < m.sizes.size()) {
    for (const auto& [label, percent] : kPublished) {
      auto& series = lines.series.emplace_back();
      series.label = {label};
      series.values.assign(m.sizes.size(), kNone);
      series.values[static_cast<size_t>(at)] = percent;
    }
    beside = "; at " + std::to_string(kPublishedSize) + " ranks " +
             percent_text(m.percent(0, static_cast<size_t>(at))) +
             " here, where the paper has 50 % over NCCL and 33 % over Gloo";
  }
  return {.title = "The time of a step on one rank, as a part of its time on so many",
          .caption = percent_text(m.percent(0, m.sizes.size() - 1)) + " on " +
                     counted(m.sizes.back(), "rank") + " with overlap" + beside,
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
  size_t gains = 0;
  const auto gain = [&](size_t i) {
    return static_cast<double>(m.steps[1][i].ns) / static_cast<double>(m.steps[0][i].ns);
  };
  for (size_t i = 0; i < m.sizes.size(); ++i)
    if (gain(i) > gain(gains)) gains = i;
  return {.title = "The time of a step, and of sending",
          .caption = std::ranges::none_of(m.steps[0], is_hidden)
                         ? "no sending is hidden: overlap gains nothing"
                         : "overlap gains the most on " + counted(m.sizes[gains], "rank") + ", " +
                               percent_text(100 * (gain(gains) - 1)) + " of speed",
          .body = std::move(grid)};
}

DemoStory show(const ScaleCase& c, const History& h) {
  const auto m = measured(c, h);
  const auto last = m.sizes.size() - 1;
  DemoStory story;
  story.finding = counted(m.sizes.back(), "rank") + (m.sizes.back() == 1 ? " has" : " have") +
                  " an efficiency of " + percent_text(m.percent(0, last)) + " with overlap and " +
                  percent_text(m.percent(1, last)) + " without; it is 50 % or more up to " +
                  counted(m.most_at_half(0), "rank") + " with it and " +
                  counted(m.most_at_half(1), "rank") + " without.";
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
           "Groups of 1, 2, 4, ... ranks of one simulated world train the same model, 8 layers of "
           "64 bytes: with DDP, whose buckets travel during the backward pass, and with the "
           "same buckets sent after it. Each rank has a batch of its own. Latency and bandwidth "
           "are what calibrate measured on two cores over Gloo; --set takes other ones. Li et "
           "al. 2020 trained ResNet50 on GPUs, whose 102 MB need bandwidth, over networks with "
           "fast links within a host; here one ring has the same link everywhere, and 512 bytes "
           "need nothing but latency. So the curves are not of one setting.",
       .proof = "",
       .meanings = {"number of ranks of the largest group, a power of two",
                    "gradients that close a bucket", "milliseconds of a backward pass, about",
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
