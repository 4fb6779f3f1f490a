// Where the time of a step goes: what each rank computes, and what travels meanwhile. One training
// step runs four ways: without communication, with gradients sent after the backward pass, with DDP
// and an all-reduce a gradient, and with DDP and buckets.
//
// The input is rank + 1 everywhere, so that every gradient is kBatch (rank + 1).
#include "demos/make.h"
#include "demos/timed.h"
#include "harness/base/text.h"
#include "harness/verdict/compare.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace lockstep::demos::overlap {

namespace {

using reports::Mark;

constexpr char kForwardOrder[] = "forward_order", kAtTheEnd[] = "sent_at_the_end";
// The last of the passes is shown: DDP has its final buckets from the second one on.
constexpr int kShown = 2;
constexpr int64_t kPicosecondsPerElement = 100'000;
constexpr int64_t kMegabytesPerSecond = 2;

struct Settings {
  int world = 2;
  int layers = 6;
  int bucket = 2;
  int latency_us = 40;
  int slow = 1;
  auto operator<=>(const Settings&) const = default;
  static constexpr auto fields() {
    return std::tuple{field("world", &Settings::world, between(2, 4)),
                      field("layers", &Settings::layers, between(2, 8)),
                      field("bucket", &Settings::bucket, between(1, 8)),
                      field("latency_us", &Settings::latency_us, between(0, 1000)),
                      field("slow", &Settings::slow, between(1, 4))};
  }
};
using OverlapCase = Staged<Settings>;

constexpr const char *kAlone = "alone", *kNaive = "naive", *kEach = "each", *kBuckets = "buckets";
constexpr std::array kWays{kAlone, kNaive, kEach, kBuckets};
constexpr std::array kSending{kNaive, kEach, kBuckets};

Moment shown_in(const char* way) {
  return {kShown, way};
}

std::vector<int> ranks_of(const OverlapCase& c) {
  return ranks_from(0, c.world.size);
}

Timing prices(const Settings& s) {
  std::vector<int> factors(static_cast<size_t>(s.world), 1);
  factors.back() = s.slow;
  return {.slow_ranks = factors,
          .latency_ns = 1000 * int64_t{s.latency_us},
          .megabytes_per_second = kMegabytesPerSecond,
          .picoseconds_per_element = kPicosecondsPerElement};
}

// Returns the sender of this way's gradients without DDP; null: nothing sends them, or DDP does.
std::unique_ptr<Sender> sender_of(const OverlapCase& c, RankContext& here, const std::string& way,
                                  TimedLayers& model) {
  const auto make = [&](std::vector<std::vector<size_t>> buckets, Sender::When when) {
    return std::make_unique<Sender>(here.group(), model, std::move(buckets), when);
  };
  auto buckets = buckets_of(c.settings.layers, c.settings.bucket);
  if (way == kNaive) return make(buckets_of(c.settings.layers, 1), Sender::When::after_backward);
  if (way != kBuckets || c.mistake == kNoMistake) return nullptr;
  if (c.mistake == kAtTheEnd) return make(std::move(buckets), Sender::When::after_backward);
  std::reverse(buckets.begin(), buckets.end());
  return make(std::move(buckets), Sender::When::as_they_fill);
}

void program(const OverlapCase& c, RankContext& here) {
  const auto input = torch::full({TimedLayers::kBatch, TimedLayers::kWidth}, here.rank() + 1.0);
  for (const std::string way : kWays) {
    const auto model = std::make_shared<TimedLayers>(c.settings.layers);
    const auto sender = sender_of(c, here, way, *model);
    const bool has_ddp = !sender && way != kAlone;
    const int64_t gradients = way == kEach ? 1 : c.settings.bucket;
    const auto replica =
        has_ddp
            ? wrap(here, model, {.bucket_caps_bytes = {gradients * TimedLayers::kGradientBytes}})
            : nullptr;
    for (int pass = 0; pass <= kShown; ++pass)
      run_timed(
          here, pass, way,
          {.group = here.group(),
           .model = *model,
           .forward =
               [&] { return (replica ? replica->forward(input) : model->forward(input)).sum(); },
           .backward =
               [&](const at::Tensor& loss) {
                 replica ? replica->backward(loss) : loss.backward();
                 if (sender) sender->finish();
               },
           .on_gradient =
               [&](size_t layer, const at::Tensor& gradient) {
                 if (sender) sender->arrived(layer, gradient);
               }});
  }
}

Findings gradients_are_averages(const OverlapCase& c, const History& h) {
  std::vector<TensorValue> own;
  for (int rank = 0; rank < c.world.size; ++rank)
    own.push_back(gradients_of(c.settings.layers, rank + 1));
  std::vector<Comparison> rows;
  for (const char* way : kSending)
    rows.push_back({.row = h.row(shown_in(way), "gradients"),
                    .expected = {gradients_of(c.settings.layers, (c.world.size + 1) / 2.0)},
                    .explanations = [own] { return Explanations{not_reduced(own)}; }});
  return equal("Every gradient must be the average over the ranks, whenever it travels", rows);
}

Findings buckets_leave_at_once(const OverlapCase& c, const History& h) {
  auto found = full_buckets_leave_at_once(h, ranks_of(c), shown_in(kEach), 1);
  found += full_buckets_leave_at_once(h, ranks_of(c), shown_in(kBuckets), c.settings.bucket);
  return found;
}

// The rank whose numbers the sentences have: with `slow` it is the last to compute.
int slowest(const OverlapCase& c) {
  return c.world.size - 1;
}

double since(int64_t ns, int64_t begin) {
  return static_cast<double>(ns - begin) / 1000;
}

// The row of what a rank computes, above the row of what travels.
void add_computing(reports::Lanes::Lane& lane, const OverlapCase& c, const PassTimes& times) {
  const auto add = [&](int64_t from, int64_t to, const std::string& what) {
    if (from < to) lane.spans.push_back({since(from, times.begin), since(to, times.begin), what});
  };
  add(times.begin, times.backward, "forward");
  int64_t from = times.backward;
  for (size_t i = 0; i < times.arrivals.size(); ++i) {
    add(from, times.arrivals[i],
        "w" + std::to_string(static_cast<size_t>(c.settings.layers) - 1 - i));
    from = times.arrivals[i];
  }
}

// The row of what travels, below it; a bucket is in the row of what is computed where that waits
// for it.
void add_sending(reports::Lanes::Lane& lane, const PassTimes& times,
                 const std::vector<Carried>& carried) {
  int64_t free = 0;
  for (size_t i = 0; i < carried.size(); ++i) {
    const auto& [issued, from, to] = carried[i];
    const auto add = [&](int64_t first, int64_t last, Mark mark) {
      if (first < last)
        lane.spans.push_back({since(first, times.begin), since(last, times.begin),
                              "#" + std::to_string(i), mark, 1});
    };
    add(std::max(issued, free), from, Mark::missing);
    add(from, std::min(to, times.computed()), Mark::filled);
    add(std::max(from, times.computed()), to, Mark::repeated);
    free = to;
  }
  if (const auto last = std::max(free, times.computed()); last < times.end)
    lane.spans.push_back({since(last, times.begin), since(times.end, times.begin), "copies"});
}

// The ranks that are drawn: one, where all compute as fast.
std::vector<int> shown_ranks(const OverlapCase& c) {
  return c.settings.slow == 1 ? std::vector<int>{slowest(c)} : std::vector<int>{0, slowest(c)};
}

reports::Picture lanes_of(const OverlapCase& c, const History& h) {
  reports::Lanes lanes{.time_axis = "virtual us", .lanes = {}};
  std::vector<std::string> exposed;
  for (const char* way : kSending) {
    const auto carried = carried_in(h, ranks_of(c), shown_in(way));
    for (const int rank : shown_ranks(c)) {
      const auto times = times_in(h, rank, shown_in(way));
      const auto& own = carried[static_cast<size_t>(rank)];
      auto& lane = lanes.lanes.emplace_back();
      lane.label = {way};
      if (c.settings.slow > 1)
        lane.label = {std::string(way) + ", rank " + std::to_string(rank), rank};
      add_computing(lane, c, times);
      add_sending(lane, times, own);
      if (rank != slowest(c)) continue;
      const auto shares = shares_of(times, own);
      exposed.push_back(std::string(way) + " leaves " + microseconds(shares.exposed()) + " of " +
                        microseconds(shares.carried) + " us");
    }
  }
  return {.title = c.settings.slow == 1 ? "What every rank computes, and below it what travels"
                                        : "What the first and the slow rank compute, and below it "
                                          "what travels",
          .caption = joined(exposed, ", ") + " of sending exposed",
          .body = std::move(lanes),
          .key = {{Mark::filled, "hidden: travels while this rank computes"},
                  {Mark::repeated, "exposed: this rank has nothing left to compute"},
                  {Mark::missing, "waits for a slower rank"}}};
}

std::string percent(const Shares& shares) {
  return shares.carried == 0
             ? "-"
             : std::to_string(std::llround(100.0 * static_cast<double>(shares.hidden) /
                                           static_cast<double>(shares.carried)));
}

reports::Picture table_of(const OverlapCase& c, const History& h) {
  reports::Grid grid{
      .column_axis = "us",
      .columns = {{"", {"step", "backward", "sending", "hidden", "exposed", "overlap %"}}},
      .rows = {}};
  int64_t fastest = -1;
  std::string best;
  for (const char* way : kWays) {
    const auto carried = carried_in(h, ranks_of(c), shown_in(way));
    for (const int rank : shown_ranks(c)) {
      const auto times = times_in(h, rank, shown_in(way));
      const auto shares = shares_of(times, carried[static_cast<size_t>(rank)]);
      const auto step = times.end - times.begin;
      auto label = reports::Label{way};
      if (way == kAlone) label.rank = reports::kReference;
      if (c.settings.slow > 1) label = {std::string(way) + ", rank " + std::to_string(rank), rank};
      grid.rows.push_back({label,
                           {{microseconds(step)},
                            {microseconds(times.computed() - times.backward)},
                            {microseconds(shares.carried)},
                            {microseconds(shares.hidden)},
                            {microseconds(shares.exposed())},
                            {percent(shares)}}});
      if (way == kAlone || (fastest >= 0 && step >= fastest)) continue;
      fastest = step;
      best = way;
    }
  }
  return {.title = "The time of a step, in virtual microseconds",
          .caption = best + " is the fastest way with " + microseconds(fastest) +
                     " us; overlap % is the hidden part of its own sending, so that a way that "
                     "sends longer may hide more of it and still be slower",
          .body = std::move(grid)};
}

DemoStory show(const OverlapCase& c, const History& h) {
  const auto said = [&](const char* way) {
    const auto times = times_in(h, slowest(c), shown_in(way));
    const auto shares = shares_of(times, carried_in(h, ranks_of(c), shown_in(way)).back());
    return microseconds(times.end - times.begin) + " us (" + percent(shares) + " % hidden)";
  };
  DemoStory story;
  const auto alone = times_in(h, slowest(c), shown_in(kAlone));
  story.finding = "A step of " + microseconds(alone.end - alone.begin) + " us alone takes " +
                  said(kNaive) + " with gradients sent after backward, " + said(kEach) +
                  " with an all-reduce a gradient, and " + said(kBuckets) + " in buckets of " +
                  std::to_string(c.settings.bucket) + ".";
  story.pictures = {lanes_of(c, h), table_of(c, h)};
  const auto sent = carried_in(h, ranks_of(c), shown_in(kBuckets)).back();
  const auto computed = times_in(h, slowest(c), shown_in(kBuckets)).computed();
  const auto early = std::count_if(sent.begin(), sent.end(),
                                   [&](const auto& each) { return each.issued < computed; });
  story.question = {
      counted(c.settings.layers, "gradient") + " travel in buckets of " +
          std::to_string(c.settings.bucket) +
          ". How many of the all-reduces does a rank issue before its last gradient is there?",
      std::to_string(early),
      c.mistake == kNoMistake
          ? "a bucket leaves once its gradients are there, while the backward pass computes those "
            "of earlier layers; the last bucket holds the last gradient, so that nothing hides it"
          : "the mistake that was planted keeps buckets back; without it each leaves once its "
            "gradients are there"};
  return story;
}

}  // namespace

Demo demonstration() {
  return demo<Settings>(
      {.name = "overlap",
       .lesson = "what a rank computes and what travels meanwhile, in virtual time",
       .text =
           "One step, four ways: alone without communication; naive, all-reducing each gradient "
           "after the backward pass; each, DDP with an all-reduce a gradient; buckets, DDP. "
           "Prices: 100 ns an element of an operation's inputs, and for each of the 2 (W - 1) "
           "messages of an all-reduce the latency and 0.5 us a byte.",
       .proof = "",
       .meanings = {"number of ranks", "layers, each with one gradient of 64 bytes",
                    "gradients that close a bucket", "microseconds that a message takes at least",
                    "how many times as long the last rank computes"},
       .mistakes = {{kForwardOrder,
                     "the program has buckets of its own, in the order of the forward pass: the "
                     "first one fills last"},
                    {kAtTheEnd,
                     "the program has buckets of its own, and sends them after backward"}},
       .prices = prices,
       .program = program,
       .checks = {gradients_are_averages, buckets_leave_at_once},
       .show = show});
}

}  // namespace lockstep::demos::overlap
