// A hook that averages buffers takes the place of their broadcast: in the forwards that would have
// one, before the module's forward or behind it, and in no other.
//
// Each forward adds to a buffer what only its own rank adds, so that an average that comes once too
// often, too seldom or too late shows. World sizes are powers of two and the numbers small, so that
// averages are exact. The buffer of whole numbers, which the hook leaves alone, keeps each rank's
// own count: a broadcast would show there. A forward that throws has no average behind it, nor has
// the next one on its account; buffers without the lag show it best.
#include "harness/cases/generators.h"
#include "harness/cases/scenario.h"
#include "harness/rank/rank_context.h"
#include "harness/verdict/compare.h"
#include "harness/worlds/subject.h"
#include "scenarios/cases/devices.h"
#include "scenarios/cases/labels.h"
#include "scenarios/cases/tensors.h"

#include <torch/torch.h>

#include <algorithm>
#include <bit>

namespace lockstep::scenarios::buffers_hook_averages {
namespace {

enum class Place { before_forward, after_forward };

enum class Forward { synced, throws, no_sync, no_grad, eval };

struct Averaged {
  WorldSpec world;
  Place place = Place::before_forward;
  // Forwards: in training and synchronised, the same with an exception at its end, inside no_sync,
  // without gradients, in evaluation mode. Empty: one `synced`.
  std::vector<Forward> forwards;
  bool buffer_sync_lag = true;
  auto operator<=>(const Averaged&) const = default;
  static constexpr auto fields() {
    return std::tuple{field("world", &Averaged::world), field("place", &Averaged::place),
                      field("forwards", &Averaged::forwards),
                      field("buffer_sync_lag", &Averaged::buffer_sync_lag)};
  }
};

std::vector<Forward> forwards_of(const Averaged& c) {
  return c.forwards.empty() ? std::vector{Forward::synced} : c.forwards;
}

bool has(const Averaged& c, Forward kind) {
  return std::ranges::count(c.forwards, kind) > 0;
}

// The averaged buffers begin with a number beside which float32 would round what is added.
constexpr double kStart = 0x1p30;

int64_t added(size_t forward, int rank) {
  return static_cast<int64_t>(forward + 1) * (rank + 1);
}

struct Thrown : std::runtime_error {
  Thrown() : runtime_error("planted in a forward") {}
};

class Counting : public Model {
 public:
  Counting(RankContext& here) : here_(here) {
    weight_ = register_parameter("weight", torch::ones({1}, at::kDouble));
    mean_ = register_buffer("mean", torch::full({2}, kStart, at::kDouble));
    scalar_ = register_buffer("scalar", torch::full({}, kStart, at::kDouble));
    count_ = register_buffer("count", torch::zeros({1}, at::kLong));
  }

  at::Tensor forward(const at::Tensor& input) override {
    record("in forward");
    if (is_training()) {
      mean_ += input.detach();
      scalar_ += input.detach().sum();
      count_ += input.detach().to(at::kLong);
    }
    if (throws) throw Thrown();
    return input * weight_;
  }

  void record(const std::string& phase) {
    here_.enter(step, phase);
    here_.record("mean", mean_);
    here_.record("scalar", scalar_);
    here_.record("count", count_);
  }

  int step = 0;
  bool throws = false;

 private:
  RankContext& here_;
  at::Tensor weight_, mean_, scalar_, count_;
};

void program(const Averaged& c, RankContext& here) {
  if (has(c, Forward::throws)) refuse_where_the_host_does_not_wait(here, "a forward that throws");
  const auto model = std::make_shared<Counting>(here);
  WrapOptions options;
  options.buffer_sync_lag = c.buffer_sync_lag;
  options.buffer_hook = word_of(c.place);
  const auto replica = wrap(here, model, options);
  const auto kinds = forwards_of(c);
  for (size_t f = 0; f < kinds.size(); ++f) {
    const auto kind = kinds[f];
    model->step = static_cast<int>(f);
    model->throws = kind == Forward::throws;
    model->train(kind != Forward::eval);
    const auto input = torch::full({1}, added(f, here.rank()), at::kDouble);
    try {
      const at::AutoGradMode with_gradients(kind != Forward::no_grad);
      const auto forward = [&] {
        const auto loss = replica->forward(input).sum();
        model->record("after forward");
        if (kind != Forward::no_grad) replica->backward(loss);
      };
      if (kind == Forward::no_sync)
        replica->no_sync(forward);
      else
        forward();
    } catch (const Thrown&) {
      model->record("after forward");
    }
  }
}

// The values that each rank's buffers hold.
struct State {
  std::vector<double> means;
  std::vector<int64_t> counts;
};

void average(State& state) {
  double sum = 0;
  for (const double each : state.means) sum += each;
  for (double& each : state.means) each = sum / static_cast<double>(state.means.size());
}

struct Followed {
  std::vector<State> in, after;  // by forward
};

enum class Mistake { none, never, other_place, in_every_forward, broadcast };

Followed followed(const Averaged& c, Mistake mistake = Mistake::none) {
  const auto ranks = static_cast<size_t>(c.world.size);
  State now{.means = std::vector<double>(ranks, kStart), .counts = std::vector<int64_t>(ranks)};
  const bool is_before = (c.place == Place::before_forward) != (mistake == Mistake::other_place);
  const auto synchronise = [&] {
    if (mistake == Mistake::broadcast) {
      now.means.assign(ranks, now.means.front());
      now.counts.assign(ranks, now.counts.front());
    } else if (mistake != Mistake::never) {
      average(now);
    }
  };
  Followed out;
  bool next = true;
  const auto kinds = forwards_of(c);
  for (size_t f = 0; f < kinds.size(); ++f) {
    const auto kind = kinds[f];
    const bool is_due = (c.buffer_sync_lag ? next : kind != Forward::no_sync) ||
                        mistake == Mistake::in_every_forward;
    if (is_due && is_before) synchronise();
    out.in.push_back(now);
    for (size_t rank = 0; kind != Forward::eval && rank < ranks; ++rank) {
      now.means[rank] += static_cast<double>(added(f, static_cast<int>(rank)));
      now.counts[rank] += added(f, static_cast<int>(rank));
    }
    if (is_due && !is_before && kind != Forward::throws) synchronise();
    out.after.push_back(now);
    if (kind != Forward::throws) next = kind == Forward::synced || kind == Forward::eval;
  }
  return out;
}

std::vector<TensorValue> means_of(const State& state, at::IntArrayRef shape) {
  std::vector<TensorValue> out;
  for (const double each : state.means)
    out.push_back(recorded(torch::full(shape, each, at::kDouble), at::kDouble));
  return out;
}

std::vector<TensorValue> counts_of(const State& state) {
  std::vector<TensorValue> out;
  for (const int64_t each : state.counts) out.push_back(int64_values({each}));
  return out;
}

Findings buffers_are_averaged_where_they_are_due(const Averaged& c, const History& h) {
  const auto right = followed(c);
  std::vector<Comparison> rows;
  for (size_t f = 0; f < right.in.size(); ++f)
    for (const bool is_in : {true, false}) {
      const Moment at{static_cast<int>(f), is_in ? "in forward" : "after forward"};
      const auto of = [f, is_in](const Followed& all) { return is_in ? all.in[f] : all.after[f]; };
      for (const bool is_scalar : {false, true}) {
        const auto shape = is_scalar ? std::vector<int64_t>{} : std::vector<int64_t>{2};
        rows.push_back({.row = h.row(at, is_scalar ? "scalar" : "mean"),
                        .expected = means_of(of(right), shape),
                        .explanations = [&c, of, shape] {
                          const auto if_it = [&](Mistake mistake) {
                            return means_of(of(followed(c, mistake)), shape);
                          };
                          return Explanations{
                              recorded_instead({"never_averaged", "the ranks' own: no hook ran"},
                                               if_it(Mistake::never)),
                              recorded_instead({"other_place", "the averages at the other place"},
                                               if_it(Mistake::other_place)),
                              recorded_instead({"too_often", "the averages of every forward"},
                                               if_it(Mistake::in_every_forward)),
                              recorded_instead({"broadcast_instead", "rank 0's, by a broadcast"},
                                               if_it(Mistake::broadcast))};
                        }});
      }
      rows.push_back({.row = h.row(at, "count"), .expected = counts_of(of(right))});
    }
  return equal(
      "A hook must average buffers in the forwards that would broadcast them, at its place", rows);
}

std::string why_averages_round(const Averaged& c) {
  return std::has_single_bit(static_cast<unsigned>(c.world.size))
             ? ""
             : "averages over " + std::to_string(c.world.size) + " ranks round";
}

std::vector<Averaged> pairs_of_forwards() {
  std::vector<Averaged> all;
  const auto kinds = {Forward::synced, Forward::throws, Forward::no_sync, Forward::no_grad,
                      Forward::eval};
  for (const auto place : {Place::before_forward, Place::after_forward})
    for (const bool lag : {true, false})
      for (const auto first : kinds)
        for (const auto second : kinds)
          all.push_back({.world = {.size = 2},
                         .place = place,
                         .forwards = {first, second, Forward::synced},
                         .buffer_sync_lag = lag});
  return all;
}

rc::Gen<Averaged> cases() {
  using rc::gen::element;
  const auto world = gen::build<WorldSpec>(gen::set(&WorldSpec::size, element(2, 2, 4, 4, 8)));
  return gen::build<Averaged>(
      gen::set(&Averaged::world, world),
      gen::set(&Averaged::place, element(Place::before_forward, Place::after_forward)),
      gen::set(&Averaged::forwards,
               gen::lists(1, 7,
                          element(Forward::synced, Forward::synced, Forward::throws,
                                  Forward::no_sync, Forward::no_grad, Forward::eval))),
      gen::set(&Averaged::buffer_sync_lag));
}

}  // namespace

Scenario hook_averages() {
  return scenario<Averaged>({
      .name = "buffers.hook_averages",
      .claim =
          "A hook that averages buffers runs in the forwards that would broadcast them, before "
          "or behind the module's, and in no other.",
      .exactness = "bit-equal",
      .source = "DistributedDataParallel._register_buffer_comm_hook; docs/semantics.md 1.3",
      .not_covered = "hooks of a program's own, joins, averages that round",
      .usual_mistake =
          "expecting that the average of one forward's statistics is theirs already in "
          "that forward's output.",
      .tags = {"buffers", "hooks"},
      .must_catch = {"buffer_hook_before_for_after", "buffer_hook_rounds_doubles",
                     "buffer_hook_stays_due_after_a_throw"},
      .draws = 60,
      .start = {.world = {.size = 2}},
      .every = pairs_of_forwards,
      .cases = cases(),
      .precondition = why_averages_round,
      .program = program,
      .checks = {buffers_are_averaged_where_they_are_due},
      .labels = {{"three ranks and more", 0.4, has_three_ranks<Averaged>},
                 {"a hook behind the forward", 0.2,
                  [](const Averaged& c) { return c.place == Place::after_forward; }},
                 {"a forward that throws", 0.2,
                  [](const Averaged& c) { return has(c, Forward::throws); }},
                 {"a local forward", 0.25,
                  [](const Averaged& c) { return has(c, Forward::no_sync); }},
                 {"no lag", 0.2, [](const Averaged& c) { return !c.buffer_sync_lag; }}},
  });
}

std::vector<Scenario> all() {
  return {hook_averages()};
}

}  // namespace lockstep::scenarios::buffers_hook_averages
