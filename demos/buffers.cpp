// The zeros-and-ones experiment: even ranks are fed zeros and odd ones ones, and the running_mean
// of a batch normalisation is recorded as each forward begins, after it and after its backward, in
// four ways: DDP with broadcast_buffers on, off, with SyncBatchNorm, and DataParallel in one
// process.
//
// DataParallel has no class in LibTorch for tensors on the CPU, so each rank does it by hand: the
// first replica is the module, whose buffers survive, and the others are copies for one forward.
#include "demos/buffers.h"

#include "demos/layers.h"
#include "harness/verdict/compare.h"
#include "reference/batch_norm.h"
#include "scenarios/cases/tensors.h"

#include <cmath>

namespace lockstep::demos::buffers {

namespace {

constexpr char kNotConverted[] = "not_converted", kUnwrapped[] = "unwrapped_forward";

NormOptions norm_of(const BuffersCase& c) {
  return {.channels = 1, .momentum_log2 = c.settings.momentum_log2};
}

at::Tensor batch(int rank) {
  return torch::full({2, 1}, rank % 2, at::kFloat);
}

void train(const BuffersCase& c, RankContext& here, const Way& way) {
  const bool is_sync = way.name == kSync.name && c.mistake != kNotConverted;
  const auto layer = is_sync ? sync_batch_norm(here, norm_of(c))
                             : std::shared_ptr<Model>(std::make_shared<PlainNorm>(norm_of(c)));
  const auto model = std::make_shared<Watched>(layer);
  const auto replica = wrap(here, model, {.broadcast_buffers = way.name != kOff.name});
  const bool calls_model = way.name == kOn.name && c.mistake == kUnwrapped;
  for (int f = 0; f < c.settings.forwards; ++f) {
    const auto record = [&](size_t moment) {
      here.enter(f, kMoments[moment]);
      here.record(way.name, running_mean(*model));
    };
    model->on_entry = [&] { record(0); };
    const auto input = batch(here.rank());
    const auto loss = (calls_model ? model->forward(input) : replica->forward(input)).sum();
    record(1);
    calls_model ? loss.backward() : replica->backward(loss);
    record(2);
  }
}

void train_data_parallel(const BuffersCase& c, RankContext& here) {
  const auto model = std::make_shared<PlainNorm>(norm_of(c));
  for (int f = 0; f < c.settings.forwards; ++f) {
    std::vector<std::shared_ptr<PlainNorm>> replicas{model};
    while (static_cast<int>(replicas.size()) < here.size()) replicas.push_back(model->copied());
    const auto record = [&](size_t moment) {
      here.enter(f, kMoments[moment]);
      std::vector<at::Tensor> values;
      for (const auto& each : replicas) values.push_back(running_mean(*each));
      here.record(kParallel.name, torch::cat(values));
    };
    record(0);
    auto loss = torch::zeros({});
    for (size_t r = 0; r < replicas.size(); ++r)
      loss = loss + replicas[r]->forward(batch(static_cast<int>(r))).sum();
    record(1);
    loss.backward();
    replicas.resize(1);
    record(2);
  }
}

void program(const BuffersCase& c, RankContext& here) {
  for (const auto& way : {kOn, kOff, kSync}) train(c, here, way);
  train_data_parallel(c, here);
}

// The values that each rank must hold, moment after moment: three moments a forward.
using Course = std::vector<std::vector<reference::Rounded>>;

// `seen_by` names the ranks whose batches a rank's layer sees; `follows_rank_zero`: every forward
// begins with what rank 0 had.
template <class SeenBy>
Course course(const BuffersCase& c, bool follows_rank_zero, const SeenBy& seen_by) {
  const double factor = std::ldexp(1.0, static_cast<int>(c.settings.momentum_log2));
  std::vector<reference::Rounded> now(static_cast<size_t>(c.world.size),
                                      reference::given(torch::zeros({1}, at::kDouble)));
  Course out;
  for (int f = 0; f < c.settings.forwards; ++f) {
    if (follows_rank_zero) now.assign(now.size(), reference::Rounded(now.front()));
    out.push_back(now);
    for (int rank = 0; rank < c.world.size; ++rank) {
      std::vector<reference::BatchPart> parts;
      for (const int each : seen_by(rank)) {
        const auto input = batch(each).to(at::kDouble);
        parts.push_back({input, torch::zeros_like(input)});
      }
      const auto seen = reference::normalised({.weight = {}, .bias = {}, .eps = 1}, parts, 24);
      auto& own = now[static_cast<size_t>(rank)];
      own = reference::moved_by(own, seen.average, factor, 24);
    }
    out.push_back(now);
    out.push_back(now);
  }
  return out;
}

Course alone(const BuffersCase& c, bool follows_rank_zero) {
  return course(c, follows_rank_zero, [](int rank) { return std::vector<int>{rank}; });
}

Course together(const BuffersCase& c) {
  return course(c, false, [&](int) {
    std::vector<int> all;
    for (int rank = 0; rank < c.world.size; ++rank) all.push_back(rank);
    return all;
  });
}

std::vector<TensorValue> values_of(const std::vector<reference::Rounded>& by_rank) {
  std::vector<TensorValue> out;
  for (const auto& one : by_rank) out.push_back(scenarios::written(one, at::kFloat).value);
  return out;
}

}  // namespace

Moment moment_of(size_t index) {
  return {static_cast<int>(index / kMoments.size()), kMoments[index % kMoments.size()]};
}

namespace {

Findings judged(const History& h, const Way& way, const Course& right, const Diagnosis& mistake,
                const Course& wrong) {
  std::vector<Comparison> rows;
  for (size_t m = 0; m < right.size(); ++m) {
    rows.push_back({.row = h.row(moment_of(m), way.name), .expected = values_of(right[m])});
    for (const auto& one : right[m])
      rows.back().bounds.push_back(scenarios::written(one, at::kFloat).bound);
    rows.back().explanations = [=] {
      return Explanations{recorded_instead(mistake, values_of(wrong[m]))};
    };
  }
  return equal(way.rule, rows);
}

Findings ddp_follows_rank_zero_or_its_own(const BuffersCase& c, const History& h) {
  auto out = judged(h, kOn, alone(c, true),
                    {"kept_own_buffers", "the rank's own buffers, where rank 0's belong"},
                    alone(c, false));
  out += judged(
      h, kOff, alone(c, false),
      {"took_rank_zeros_buffers", "rank 0's buffers, where this forward must not synchronise"},
      alone(c, true));
  return out;
}

Findings sync_batch_norm_follows_all(const BuffersCase& c, const History& h) {
  return judged(h, kSync, together(c),
                {"running_statistics_local",
                 "running statistics that moved towards the rank's own batch, not the whole one"},
                alone(c, true));
}

Findings data_parallel_keeps_one_set(const BuffersCase& c, const History& h) {
  const auto right = alone(c, true);
  std::vector<Comparison> rows;
  for (size_t m = 0; m < right.size(); ++m) {
    std::vector<at::Tensor> values, bounds;
    const bool is_over = m % kMoments.size() == 2;  // the copies are gone
    for (const auto& one : right[m]) {
      values.push_back(one.value);
      bounds.push_back(one.error);
    }
    if (is_over) {
      values.resize(1);
      bounds.resize(1);
    }
    const auto [value, bound] =
        scenarios::written({torch::cat(values), torch::cat(bounds)}, at::kFloat);
    rows.push_back(
        {.row = h.row(moment_of(m), kParallel.name), .expected = {value}, .bounds = {bound}});
  }
  return equal(kParallel.rule, rows);
}

}  // namespace

std::vector<double> reference_of(const BuffersCase& c) {
  std::vector<double> out;
  for (const auto& moment : together(c)) out.push_back(moment.front().value.item<double>());
  return out;
}

Demo demonstration() {
  return demo<Settings>(
      {.name = "buffers",
       .lesson = "what broadcast_buffers does to a BatchNorm, and what it does not",
       .text = "Even ranks are fed zeros, odd ranks ones, through a batch normalisation. Its "
               "running_mean is recorded as each forward begins (in), after it (out) and after its "
               "backward (bwd). "
               "The first row is one process that sees the whole batch.",
       .proof = "sync_batch_norm.keeps_buffers_equal_under_ddp",
       .meanings = {"number of ranks", "forwards, each followed by a backward",
                    "the weight of a new batch in running_mean, as a power of two"},
       .mistakes = {{kNotConverted, "the model's BatchNorm is not converted to SyncBatchNorm"},
                    {kUnwrapped, "the program calls the model itself, not the wrapped one"}},
       .program = program,
       .checks = {ddp_follows_rank_zero_or_its_own, sync_batch_norm_follows_all,
                  data_parallel_keeps_one_set},
       .show = show});
}

}  // namespace lockstep::demos::buffers
