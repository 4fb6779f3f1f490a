#include "harness/worlds/calibration.h"

#include "harness/rank/rank_context.h"
#include "harness/worlds/subject.h"
#include "harness/worlds/tiers.h"

#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cmath>

namespace lockstep {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kTimes = 15;
constexpr int kOperationsAtOnce = 50;

struct Calibrated {
  WorldSpec world{.size = 2};
  static constexpr auto fields() { return std::tuple{field("world", &Calibrated::world)}; }
};

// A number of elements, and the nanoseconds of one operation on them.
const std::vector<int64_t> kComputed{1, 1 << 10, 1 << 14, 1 << 17, 1 << 20};
const std::vector<int64_t> kSent{1, 1 << 10, 1 << 14, 1 << 17, 1 << 20};

template <class Act>
int64_t median_ns(const Act& act) {
  std::vector<int64_t> times;
  for (int i = 0; i < kTimes; ++i) {
    const auto start = Clock::now();
    act();
    times.push_back(std::chrono::nanoseconds(Clock::now() - start).count());
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

void program(const Calibrated&, RankContext& here) {
  here.enter(0, "computing");
  std::vector<int64_t> computing, communicating;
  for (const auto elements : kComputed) {
    auto values = torch::ones({elements});
    computing.push_back(median_ns([&] {
                          for (int i = 0; i < kOperationsAtOnce; ++i) values.add_(1);
                        }) /
                        kOperationsAtOnce);
  }
  here.record("ns", computing);
  here.enter(0, "communicating");
  auto group = here.group();
  for (const auto elements : kSent) {
    std::vector<at::Tensor> values{torch::ones({elements})};
    group->allreduce(values)->wait();
    communicating.push_back(median_ns([&] { group->allreduce(values)->wait(); }));
  }
  here.record("ns", communicating);
}

Findings nothing(const Calibrated&, const History&) {
  return {};
}

// y = base + slope * x, both at least 0, with the least sum of squared relative errors.
struct Line {
  double base = 0, slope = 0, off_by = 0;
};
Line fitted(const std::vector<double>& x, const std::vector<double>& y) {
  double w = 0, wx = 0, wxx = 0, wy = 0, wxy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double weight = 1 / (y[i] * y[i]);
    w += weight;
    wx += weight * x[i];
    wxx += weight * x[i] * x[i];
    wy += weight * y[i];
    wxy += weight * x[i] * y[i];
  }
  const double determinant = w * wxx - wx * wx;
  Line line{(wy * wxx - wx * wxy) / determinant, (w * wxy - wx * wy) / determinant};
  if (line.base < 0) line = {0, wxy / wxx};
  if (line.slope < 0) line = {wy / w, 0};
  for (size_t i = 0; i < x.size(); ++i)
    line.off_by = std::max(line.off_by, std::abs(line.base + line.slope * x[i] - y[i]) / y[i]);
  return line;
}

std::vector<double> slowest(const Row& row) {
  std::vector<double> out;
  for (const auto& of_rank : row.by_rank) {
    const auto values = as_doubles(of_rank);
    out.resize(values.size());
    for (size_t i = 0; i < values.size(); ++i) out[i] = std::max(out[i], values[i]);
  }
  return out;
}

Scenario calibration_scenario() {
  return scenario(Spec<Calibrated>{.name = "calibration",
                                   .claim = "Times of this machine",
                                   .cases = rc::gen::just(Calibrated{}),
                                   .program = &program,
                                   .checks = {&nothing}});
}

constexpr std::chrono::seconds kLimit{120};

}  // namespace

Calibration calibrate(SingleThreaded alone, int ranks) {
  const auto scenario = calibration_scenario();
  const auto lanes =
      forked_lanes(std::move(alone), {scenario}, Subjects{Subject{.name = "none"}}, 1);
  const Case c = scenario.parse(Json{{"world", {{"size", ranks}}}});
  const auto history = lanes[0]->run(scenario, c, {.subject = "none"}, {kLimit});
  const auto verdict = judge(scenario, c, history);
  if (verdict.kind != Verdict::Kind::pass)
    throw TierError("this machine cannot be timed: " + verdict.findings.front().diagnosis);
  return calibrated(history);
}

Calibration calibrated(const History& history) {
  const auto computing = slowest(history.row({0, "computing"}, "ns"));
  const auto communicating = slowest(history.row({0, "communicating"}, "ns"));
  const auto compute = fitted({kComputed.begin(), kComputed.end()}, computing);
  // 2 (W - 1) messages of a W-th of the bytes: see Links::cost.
  const double world = history.size(), messages = 2 * (world - 1);
  std::vector<double> bytes, per_message;
  for (size_t i = 0; i < kSent.size(); ++i) {
    bytes.push_back(4.0 * static_cast<double>(kSent[i]) / world);
    per_message.push_back(communicating[i] / messages);
  }
  const auto message = fitted(bytes, per_message);
  Calibration out{.computing_off_by = compute.off_by, .communicating_off_by = message.off_by};
  out.timing.operation_ns = std::llround(compute.base);
  out.timing.picoseconds_per_element = std::llround(1000 * compute.slope);
  out.timing.latency_ns = std::llround(message.base);
  if (message.slope > 0)
    out.timing.megabytes_per_second = std::max(1LL, std::llround(1000 / message.slope));
  return out;
}

}  // namespace lockstep
