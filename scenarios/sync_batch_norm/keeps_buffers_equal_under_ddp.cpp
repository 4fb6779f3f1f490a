// Under DistributedDataParallel a SyncBatchNorm's running statistics are equal on all ranks after
// every step. A plain BatchNorm's are not those of the whole batch on any rank, with the broadcast
// of buffers or without it.
//
// Even ranks are fed zeros and odd ones ones (or tens, as `distance` says), through a convolution
// and the normalisation, all wrapped. It tests three beliefs:
//
// "broadcast_buffers gives synchronised BatchNorm": it does not. It copies rank 0's statistics
// before a forward, and each rank then adds its own batch. With a momentum of 1/8 and a distance of
// ten, rank 0's running average starts at 0 and every forward on all ranks begins with 0, whereas
// the whole batch's, which SyncBatchNorm keeps, moves to 5/8.
//
// "Without the broadcast it is DataParallel's BatchNorm": there are as many sets of statistics as
// ranks, and each drifts towards its own rank's data; DataParallel keeps the first one's.
//
// "With SyncBatchNorm buffers are always equal": only because each rank counts all ranks' values. A
// rank that assumes its peers' batches to be as large as its own divides by another n - 1; with
// batches of 6 and 2 the running variances diverge, and averages do not.
//
// Why the checks suffice: the convolution is of one pixel with whole weights, so that the input of
// the normalisation is one known number per rank and channel, and each rank's expected statistics
// follow from the definition step by step, within the bounds of docs/numerics.md. For a plain layer
// the ranks must differ, by that definition; synchronised ones are also compared bit for bit.
#include "harness/cases/generators.h"
#include "harness/cases/scenario.h"
#include "harness/rank/rank_context.h"
#include "harness/verdict/compare.h"
#include "harness/worlds/subject.h"
#include "scenarios/cases/devices.h"
#include "scenarios/cases/labels.h"
#include "scenarios/cases/network.h"
#include "scenarios/cases/tensors.h"
#include "scenarios/sync_batch_norm/expected.h"
#include "scenarios/sync_batch_norm/late_rank.h"
#include "scenarios/sync_batch_norm/under_ddp.h"

#include <torch/torch.h>

#include <cmath>
#include <stdexcept>
#include <utility>

namespace lockstep::scenarios::sync_batch_norm_keeps_buffers_equal_under_ddp {
namespace {

using namespace sync_batch_norm;

constexpr const char *kWrapped = "wrapped", *kHasNorm = "has_sync_bn", *kHasLog = "has a log";

class Plain : public Model {
 public:
  Plain()
      : norm_(register_module(
            "norm", torch::nn::BatchNorm2d(
                        torch::nn::BatchNormOptions(kChannels)
                            .eps(std::ldexp(1.0, static_cast<int>(kNorm.eps_log2)))
                            .momentum(std::ldexp(1.0, static_cast<int>(kNorm.momentum_log2)))))) {}
  at::Tensor forward(const at::Tensor& input) override { return norm_(input); }

 private:
  torch::nn::BatchNorm2d norm_;
};

class ConvolutionAnd : public Model {
 public:
  explicit ConvolutionAnd(std::shared_ptr<Model> then)
      : convolution_(
            register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, kChannels, 1)))),
        then_(register_module("then", std::move(then))) {
    const torch::NoGradGuard no_grad;
    const auto channels = torch::arange(kChannels, at::kFloat);
    convolution_->weight.copy_((channels + 1).view({kChannels, 1, 1, 1}));
    convolution_->bias.copy_(channels);
  }
  at::Tensor forward(const at::Tensor& input) override {
    const auto convolved = convolution_(input);
    if (std::exchange(throws, false)) throw std::runtime_error("this forward throws as planned");
    return then_->forward(convolved);
  }

  bool throws = false;  // the next forward, before the layer

 private:
  torch::nn::Conv2d convolution_;
  std::shared_ptr<Model> then_;
};

// The rank that throws before a step's forward; -1: none.
int throwing(const UnderDdp& c, int step) {
  if (c.throwing.empty() || c.norm == NormKind::plain) return -1;
  const auto rank = c.throwing[static_cast<size_t>(step) % c.throwing.size()];
  return rank < 0 ? -1 : rank % c.world.size;
}

// Its peers wait for it in the layer, until they receive its error.
void throw_and_begin_anew(ConvolutionAnd& model, Replica& replica, bool throws,
                          const at::Tensor& input) {
  model.throws = throws;
  try {
    replica.forward(input);
  } catch (const Unsupported&) {
    throw;
  } catch (const std::exception&) {
    replica.begin_anew();
    return;
  }
  throw std::runtime_error("a forward that a peer did not make returned");
}

void program(const UnderDdp& c, RankContext& here) {
  const bool is_plain = c.norm == NormKind::plain;
  if (late(c) >= 0) refuse_where_the_simulation_waits(here, "a deadline");
  auto norm = kNorm;
  WrapOptions options{.broadcast_buffers = c.broadcast_buffers};
  if (late(c) >= 0) set_timeouts(c, norm, options);
  const auto model = std::make_shared<ConvolutionAnd>(
      is_plain ? std::make_shared<Plain>() : lockstep::sync_batch_norm(here, norm));
  const auto replica = wrap(here, model, options);
  here.enter(0, kWrapped);
  const auto log = replica->log();
  here.record(kHasNorm, std::vector<int64_t>{log && log->switches.at("has_sync_bn")});
  here.record(kHasLog, std::vector<int64_t>{log.has_value()});
  for (int step = 0; step < c.steps; ++step) {
    model->zero_grad();
    if (has_split(c) && step == c.split_at)
      replica->update_process_group(here.group_of(group_in(c, step, here.rank())));
    const int thrower = throwing(c, step);
    if (thrower >= 0)
      throw_and_begin_anew(*model, *replica, thrower == here.rank(), batch(c, here.rank()));
    const auto output = replica->forward(batch(c, here.rank()));
    replica->backward(output.square().sum());
    here.enter(step, "after step");
    for (const auto& buffer : model->named_buffers())
      here.record(buffer.key().substr(std::string("then.").size()), *buffer);
  }
  if (late(c) >= 0)
    record_wait_for_the_late_rank(c, here, [&] { replica->forward(batch(c, here.rank())); });
}

// The expected statistics of one name in one step.
ByRank shown(const ByStep& steps, int step, const std::string& name) {
  ByRank out;
  for (const auto& running : steps[static_cast<size_t>(step)])
    add(out, name == kRunningMean ? running.average : running.variance, at::kFloat);
  return out;
}

Explanations explained(const UnderDdp& c, int step, const std::string& name) {
  if (c.norm == NormKind::synchronised) {
    Explanations out{recorded_instead(
        {"running_statistics_local",
         "running statistics that moved towards the rank's own batch, not the whole one"},
        shown(alone(c, c.broadcast_buffers), step, name).values)};
    if (name == kRunningVar && (step == 0 || !c.broadcast_buffers))
      out.push_back(recorded_instead(
          {"running_count_from_own",
           "a running variance for which every peer's count was taken to be the rank's own"},
          with_own_counts(c, together(c), step)));
    return out;
  }
  return {recorded_instead({"kept_own_buffers",
                            "this forward started from the rank's own buffers, not from rank 0's"},
                           shown(alone(c, false), step, name).values),
          recorded_instead({"took_rank_zeros_buffers",
                            "rank 0's buffers, where this forward must not synchronise"},
                           shown(alone(c, true), step, name).values)};
}

Findings running_statistics_move_towards_what_they_see(const UnderDdp& c, const History& h) {
  const auto right = c.norm == NormKind::plain ? alone(c, c.broadcast_buffers) : together(c);
  Findings out;
  for (int step = 0; step < c.steps; ++step) {
    std::vector<Comparison> rows;
    for (const char* name : {kRunningMean, kRunningVar}) {
      const auto expected = shown(right, step, name);
      rows.push_back({.row = h.row({step, "after step"}, name),
                      .expected = expected.values,
                      .bounds = expected.bounds,
                      .explanations = [&c, step, name] { return explained(c, step, name); }});
    }
    rows.push_back({.row = h.row({step, "after step"}, kBatches),
                    .expected = {recorded(torch::tensor(step + 1), at::kLong)}});
    out += equal(
        "Running statistics must start from rank 0's in each forward, and follow the whole batch "
        "where the layer is SyncBatchNorm, else the rank's own",
        rows);
  }
  return out;
}

Findings synchronised_ones_are_equal(const UnderDdp& c, const History& h) {
  if (c.norm == NormKind::plain) return {};
  return alike("Every rank must hold the same bits of running statistics as the others",
               of_the_last_ranks_group(c, h.rows("after step")));
}

Findings the_log_says_what_layers_there_are(const UnderDdp& c, const History& h) {
  if (as_integers(h.row({0, kWrapped}, kHasLog).by_rank.front()).front() == 0) return {};
  return equal("A replica must log whether it has a SyncBatchNorm",
               {{.row = h.row({0, kWrapped}, kHasNorm),
                 .expected = {int64_values({c.norm == NormKind::synchronised})}}});
}

// Without this difference the checks would pass whatever plain layers do.
Findings plain_ones_differ(const UnderDdp& c, const History& h) {
  if (c.norm == NormKind::synchronised || c.world.size == 1) return {};
  for (int step = 0; step < c.steps; ++step) {
    const auto held = h.row({step, "after step"}, kRunningMean).by_rank;
    if (held[0] == held[1])
      return {{"A plain BatchNorm's running averages must follow the rank's own data",
               "ranks_agree_reference_differs", "step " + std::to_string(step) + ", after step",
               "ranks 0 and 1 were fed different numbers and hold the same running averages"}};
  }
  return {};
}

std::vector<UnderDdp> every_small_one() {
  std::vector<UnderDdp> all;
  for (const int world : {2, 3, 4})
    for (const auto norm : {NormKind::synchronised, NormKind::plain})
      for (const bool broadcast : {true, false})
        for (const int distance : {1, 10})
          for (const auto& samples : std::vector<std::vector<int>>{{}, {6, 2}})
            all.push_back({.world = {.size = world},
                           .steps = 3,
                           .distance = distance,
                           .samples = samples,
                           .norm = norm,
                           .broadcast_buffers = broadcast});
  for (const int world : {2, 3})
    for (const bool broadcast : {true, false})
      all.push_back({.world = {.size = world},
                     .steps = 3,
                     .broadcast_buffers = broadcast,
                     .throwing = {-1, 1}});
  for (const bool waits_longer : {true, false})
    all.push_back({.world = {.size = 2}, .late = 1, .layer_waits_longer = waits_longer});
  all.push_back({.world = {.size = 3}, .steps = 3, .distance = 10, .split_at = 1});
  return all;
}

rc::Gen<UnderDdp> cases() {
  using gen::set;
  using rc::gen::inRange;
  return gen::build<UnderDdp>(
      set(&UnderDdp::world, gen::build<WorldSpec>(set(&WorldSpec::size, inRange(2, 6)))),
      set(&UnderDdp::steps, inRange(1, 5)), set(&UnderDdp::distance, inRange(1, 11)),
      set(&UnderDdp::samples, gen::lists(3, inRange(1, 7))),
      set(&UnderDdp::norm, rc::gen::element(NormKind::synchronised, NormKind::plain)),
      set(&UnderDdp::broadcast_buffers),
      set(&UnderDdp::throwing, rc::gen::weightedOneOf<std::vector<int>>(
                                   {{1, rc::gen::just(std::vector<int>{})},
                                    {2, gen::lists(3, rc::gen::element(-1, 0, 1, 2, 3))}})),
      set(&UnderDdp::late, rc::gen::element(-1, -1, -1, 0, 1, 2)),
      set(&UnderDdp::layer_waits_longer), set(&UnderDdp::split_at, inRange(0, 4)));
}

}  // namespace

Scenario keeps_buffers_equal_under_ddp() {
  return scenario<UnderDdp>({
      .name = "sync_batch_norm.keeps_buffers_equal_under_ddp",
      .claim = "Under DDP SyncBatchNorm's running statistics are the whole batch's on every rank.",
      .in_full =
          "They are bit-equal on all ranks, also after a forward that one rank did not end and all "
          "began anew; a plain BatchNorm's follow each rank's own data, from rank 0's with the "
          "broadcast of buffers and diverging without it.",
      .exactness = "bit-equal · plain: bounded",
      .source = "torch.nn.SyncBatchNorm, broadcast_buffers of DistributedDataParallel; "
                "docs/semantics.md 1.3, 3",
      .not_covered = "parameters that learn, which move what the layer sees",
      .usual_mistake = "mistaking broadcast_buffers for synchronised BatchNorm: it copies rank 0's "
                       "statistics, and every batch is still normalised by its own.",
      .tags = {"sync_batch_norm", "buffers"},
      .must_catch = {"sync_batch_norm_running_count_taken_from_own",
                     "sync_batch_norm_running_statistics_local", "buffers_never_broadcast",
                     "layer_waits_as_long_as_its_replica", "layers_end_with_the_instance",
                     "layers_count_forwards_of_another_group", "layers_stay_in_the_group_before"},
      .draws = 40,
      .start = {.world = {.size = 2}},
      .every = every_small_one,
      .cases = cases(),
      .program = program,
      .checks = {running_statistics_move_towards_what_they_see, synchronised_ones_are_equal,
                 a_layer_waits_as_long_as_it_says, the_log_says_what_layers_there_are,
                 plain_ones_differ},
      .labels = {{"three ranks and more", 0.3, has_three_ranks<UnderDdp>},
                 {"batches of unequal size", 0.4,
                  [](const UnderDdp& c) { return differs_between_ranks(c.samples, c.world.size); }},
                 {"a plain layer", 0.05,
                  [](const UnderDdp& c) { return c.norm == NormKind::plain; }},
                 {"a forward that throws on one rank", 0.05,
                  [](const UnderDdp& c) { return throwing(c, 0) >= 0; }},
                 {"a rank that is late", 0.1, [](const UnderDdp& c) { return late(c) >= 0; }},
                 {"no broadcast of buffers", 0.05,
                  [](const UnderDdp& c) { return !c.broadcast_buffers; }}},
  });
}

}  // namespace lockstep::scenarios::sync_batch_norm_keeps_buffers_equal_under_ddp
