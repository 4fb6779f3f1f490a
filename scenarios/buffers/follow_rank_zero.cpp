// Every forward in training begins with rank 0's buffers; without the broadcast, or if the forward
// does not synchronise, with the rank's own.
//
// Even ranks are fed zeros, odd ranks ones, through a convolution and a BatchNorm. With the
// broadcast on the running averages jump back to rank 0's value in each forward; with it off they
// diverge and stay different.
//
// Why the checks suffice: the model itself records "in forward" as its forward begins, after any
// synchronisation. A broadcast that is missing, from another rank, or after the forward leaves "in
// forward" or "after forward" wrong on some rank. Each forward is judged from what the ranks held
// before it. No optimizer runs, so parameters stay rank 0's first ones. The momentum is 1/8, so
// averages of a power of two of zeros and ones are exact and the tolerance is zero; a variance
// always rounds and is judged within a derived bound. BatchNorm's counter of batches is an integer
// and always exact.
#include "reference/running_statistics.h"
#include "scenarios/buffers/experiment.h"
#include "scenarios/cases/expect.h"
#include "scenarios/cases/labels.h"

#include <torch/torch.h>

#include <bit>
#include <cmath>

namespace lockstep::scenarios::buffers_follow_rank_zero {
namespace {

constexpr int kInputChannels = 3, kChannels = 5, kPatch = 3, kSide = 4;
constexpr double kMomentum = 1.0 / 8;

at::ScalarType dtype_of(const Stateful& c) {
  return scalar_type(c.dtype);
}

// Small whole numbers, or any between -1 and 1.
at::Tensor drawn(const Stateful& c, const Counter& first, int64_t most, at::IntArrayRef shape) {
  const auto values =
      c.values == Values::real ? real_numbers(first, shape) : whole_numbers(first, most, shape);
  return values.to(dtype_of(c));
}

at::Tensor batch(const Stateful& c, int forward, int rank) {
  const std::vector<int64_t> shape{samples_of(c, rank), kInputChannels, kSide, kSide};
  if (c.values == Values::exact) return torch::full(shape, rank % 2, dtype_of(c));
  return drawn(c,
               {.seed = c.seed,
                .stream = Stream::input,
                .rank = static_cast<uint64_t>(rank),
                .step = static_cast<uint64_t>(forward)},
               1, shape);
}

// The initial state of `rank`: every rank has other parameters and other statistics.
struct Start {
  at::Tensor weight, bias, running_mean, running_var;
  int64_t batches = 0;
};
Start start_of(const Stateful& c, int rank) {
  const auto from = [&](Stream stream, uint64_t index) {
    return Counter{
        .seed = c.seed, .stream = stream, .rank = static_cast<uint64_t>(rank), .index = index};
  };
  const std::vector<int64_t> filters{kChannels, kInputChannels, kPatch, kPatch};
  return {.weight = drawn(c, from(Stream::parameter, 0), 2, filters),
          .bias = drawn(c, from(Stream::parameter, 1000), 2, {kChannels}),
          .running_mean = drawn(c, from(Stream::buffer, 0), 2, {kChannels}),
          .running_var = drawn(c, from(Stream::buffer, 1000), 2, {kChannels}).abs() + 1,
          .batches = 10 * rank};
}

class ConvolutionAndNorm : public buffers::Watched {
 public:
  ConvolutionAndNorm(const Stateful& c, int rank) {
    using torch::nn::Conv2dOptions;
    convolution_ = register_module(
        "conv", torch::nn::Conv2d(Conv2dOptions(kInputChannels, kChannels, kPatch).padding(1)));
    norm_ = register_module(
        "norm", torch::nn::BatchNorm2d(torch::nn::BatchNormOptions(kChannels).momentum(kMomentum)));
    to(dtype_of(c));
    const auto start = start_of(c, rank);
    torch::NoGradGuard no_grad;
    convolution_->weight.copy_(start.weight);
    convolution_->bias.copy_(start.bias);
    norm_->running_mean.copy_(start.running_mean);
    norm_->running_var.copy_(start.running_var);
    // to() has converted the counter as well.
    norm_->num_batches_tracked.set_data(torch::tensor(start.batches, at::kLong));
  }

  at::Tensor forward(const at::Tensor& input) override {
    if (on_entry) on_entry();
    return norm_(convolution_(input));
  }

 private:
  torch::nn::Conv2d convolution_{nullptr};
  torch::nn::BatchNorm2d norm_{nullptr};
};

void program(const Stateful& c, RankContext& here) {
  buffers::train(c, here, std::make_shared<ConvolutionAndNorm>(c, here.rank()),
                 [&](int forward) { return batch(c, forward, here.rank()); });
}

const std::vector<std::string> kNames{"norm.running_mean", "norm.running_var",
                                      "norm.num_batches_tracked"};

struct Running {
  reference::Rounded mean, variance;
  int64_t batches = 0;
};

buffers::State shown(const Stateful& c, const Running& now) {
  const auto bounded = [&](const reference::Rounded& right) {
    auto [value, bound] = written(right, dtype_of(c));
    return buffers::Value{std::move(value), std::move(bound)};
  };
  return {bounded(now.mean),
          bounded(now.variance),
          {recorded(torch::tensor(now.batches), at::kLong), {}}};
}

// The buffers that a rank recorded, without error.
Running held_at(const History& h, const Moment& at, int rank) {
  const auto value = [&](const std::string& name) {
    return h.row(at, name).by_rank[static_cast<size_t>(rank)];
  };
  const auto numbers = [&](const std::string& name) {
    return reference::given(torch::tensor(as_doubles(value(name)), at::kDouble));
  };
  return {numbers(kNames[0]), numbers(kNames[1]), as_integers(value(kNames[2])).front()};
}

buffers::Trajectory expected(const Stateful& c, const History& h, const reference::Format& format,
                             double& units_max) {
  const auto start = start_of(c, 0);
  reference::Arithmetic arithmetic(format);
  reference::Arithmetic rounding({.precision_bits = format.precision_bits, .exact = false});
  const auto update = [&](const Running& now, int forward, int rank) {
    const auto output = reference::convolution(batch(c, forward, rank).to(at::kDouble),
                                               start.weight.to(at::kDouble),
                                               start.bias.to(at::kDouble), arithmetic);
    const auto own = reference::statistics(output, arithmetic);
    return Running{reference::moved(now.mean, own.average, kMomentum, arithmetic),
                   reference::moved(now.variance, own.unbiased_variance, kMomentum, rounding),
                   now.batches + 1};
  };
  const auto held = [&](const Moment& at, int rank) { return held_at(h, at, rank); };
  auto out =
      buffers::trajectory(c, held, update, [&](const Running& now) { return shown(c, now); });
  units_max = arithmetic.units_max();
  return out;
}

// Exact if the reference certifies it, with bounds otherwise.
buffers::Trajectory expected(const Stateful& c, const History& h) {
  const int bits = precision_bits(c.dtype);
  bool counts_are_powers_of_two = true;
  for (int rank = 0; rank < c.world.size; ++rank)
    counts_are_powers_of_two &= std::has_single_bit(static_cast<uint64_t>(samples_of(c, rank)));
  double units_max = 0;
  if (c.values == Values::exact && counts_are_powers_of_two)
    if (auto exact = expected(c, h, {.precision_bits = bits, .exact = true}, units_max);
        units_max <= std::ldexp(1.0, bits))
      return exact;
  return expected(c, h, {.precision_bits = bits, .exact = false}, units_max);
}

Findings replicas_start_as_rank_zero(const Stateful& c, const History& h) {
  std::vector<buffers::State> built;
  for (int rank = 0; rank < c.world.size; ++rank) {
    const auto start = start_of(c, rank);
    built.push_back(shown(c, {reference::given(start.running_mean.to(at::kDouble)),
                              reference::given(start.running_var.to(at::kDouble)), start.batches}));
  }
  return buffers::start_is_rank_zeros(c, h, kNames, built);
}

Findings forwards_begin_right_and_add_the_ranks_own_batch(const Stateful& c, const History& h) {
  return buffers::forwards_are_as_expected(h, kNames, expected(c, h));
}

std::vector<Stateful> with_and_without_broadcast() {
  std::vector<Stateful> all;
  for (const int world : {2, 3})
    for (const bool broadcast : {true, false})
      for (const auto values : {Values::exact, Values::real})
        all.push_back({.world = {.size = world},
                       .forwards = std::vector(3, ForwardKind::synced),
                       .samples = {2, 4},
                       .options = {.broadcast_buffers = broadcast},
                       .values = values,
                       .seed = 2});
  return all;
}

// Two forwards before one backward: the second one's broadcast must not invalidate the first one's
// graph.
std::vector<Stateful> held_back() {
  using enum ForwardKind;
  auto all = with_and_without_broadcast();
  for (const int world : {2, 3})
    all.push_back(
        {.world = {.size = world}, .forwards = {held, synced, held, held, synced}, .seed = 2});
  return all;
}

// Every pair of kinds of forwards, followed by a synchronised one.
std::vector<Stateful> every_pair_of_forwards() {
  using enum ForwardKind;
  std::vector<Stateful> all;
  for (const auto first : {synced, held, no_sync, no_grad, eval})
    for (const auto second : {synced, held, no_sync, no_grad, eval})
      all.push_back({.world = {.size = 2}, .forwards = {first, second, synced}, .seed = 2});
  return all;
}

}  // namespace

Scenario follow_rank_zero() {
  return scenario<Stateful>({
      .name = "buffers.follow_rank_zero",
      .claim = "With the broadcast on, every training forward begins with rank 0's buffers.",
      .in_full =
          "With the broadcast on, every training forward begins with rank 0's buffers and adds "
          "its own batch to them; with it off every rank keeps its own. A backward changes "
          "none.",
      .exactness = "bit-equal · real: bounded",
      .source = "broadcast_buffers of torch.nn.parallel.DistributedDataParallel; docs/semantics.md "
                "1.3",
      .not_covered = "ignored buffers",
      .usual_mistake = "mistaking the broadcast for synchronised statistics: it copies rank 0's "
                       "and discards the other ranks'.",

      .tags = {"core", "buffers"},
      .must_catch = {"buffers_beyond_a_message_stay", "buffers_never_broadcast",
                     "buffers_broadcast_after_forward", "broadcast_bumps_versions"},
      .draws = 60,
      .start = {.world = {.size = 2}},
      .every = held_back,
      .cases = buffers::cases({ForwardKind::synced, ForwardKind::held}),
      .program = program,
      .checks = {replicas_start_as_rank_zero, forwards_begin_right_and_add_the_ranks_own_batch,
                 buffers::backward_changes_no_buffer},
      .judges_each_step = true,
      .labels = {{"three ranks and more", 0.25, has_three_ranks<Stateful>},
                 {"buffers that are broadcast in small messages", 0.12,
                  [](const Stateful& c) {
                    return c.options.broadcast_buffers && buffers::message_bytes_of(c) > 0;
                  }},
                 {"batches of unequal size", 0.03, has_unequal_batches},
                 {"buffers that are broadcast", 0.25,
                  [](const Stateful& c) { return c.options.broadcast_buffers; }},
                 {"real values", 0.1, has_real_values<Stateful>}},
      .unused = {"reassigned"},
  });
}

Scenario lag_behind_local_forwards() {
  return scenario<Stateful>({
      .name = "buffers.lag_behind_local_forwards",
      .claim = "A forward synchronises buffers if the forward before it had gradients and was "
               "outside no_sync.",
      .in_full =
          "A forward synchronises buffers if the forward before it had gradients and was outside "
          "no_sync, whatever it is itself.",
      .exactness = "bit-equal · real: bounded",
      .source = "require_forward_param_sync in torch.nn.parallel.DistributedDataParallel; "
                "docs/semantics.md 1.3",
      .not_covered = "forwards that throw, join",
      .usual_mistake = "expecting the forward after no_sync to start from rank 0's buffers.",
      .tags = {"buffers"},
      .must_catch = {"buffers_never_broadcast", "buffers_broadcast_in_every_forward"},
      .draws = 100,
      .start = {.world = {.size = 2}},
      .every = every_pair_of_forwards,
      .cases = buffers::cases({ForwardKind::synced, ForwardKind::held, ForwardKind::no_sync,
                               ForwardKind::no_grad, ForwardKind::eval}),
      .program = program,
      .checks = {replicas_start_as_rank_zero, forwards_begin_right_and_add_the_ranks_own_batch,
                 buffers::backward_changes_no_buffer},
      .judges_each_step = true,
      .labels = {{"three ranks and more", 0.35, has_three_ranks<Stateful>},
                 {"batches of unequal size", 0.07, has_unequal_batches},
                 {"buffers that are broadcast", 0.35,
                  [](const Stateful& c) { return c.options.broadcast_buffers; }},
                 {"a forward that does not synchronise", 0.06, has_unsynchronised_forward},
                 {"real values", 0.15, has_real_values<Stateful>}},
      .unused = {"reassigned"},
  });
}

}  // namespace lockstep::scenarios::buffers_follow_rank_zero
