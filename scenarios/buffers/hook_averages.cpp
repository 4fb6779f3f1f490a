// A hook that averages buffers takes the place of their broadcast: in the forwards that would have
// one, before the module's forward or behind it, and in no other.
//
// Each forward adds to a buffer what only its own rank adds, so that an average that comes once too
// often, too seldom or too late shows. World sizes are powers of two and the numbers small, so that
// averages are exact. The buffer of whole numbers, which the hook leaves alone, keeps each rank's
// own count: a broadcast would show there. In a join ranks without inputs take part with what they
// hold. A forward that throws has no average behind it, nor has
// the next one on its account; buffers without the lag show it best.
#include "harness/cases/generators.h"
#include "harness/cases/scenario.h"
#include "harness/rank/rank_context.h"
#include "harness/verdict/compare.h"
#include "harness/worlds/subject.h"
#include "scenarios/buffers/averaged.h"
#include "scenarios/cases/devices.h"
#include "scenarios/cases/draw.h"
#include "scenarios/cases/labels.h"
#include "scenarios/cases/tensors.h"

#include <torch/torch.h>

#include <algorithm>
#include <bit>

namespace lockstep::scenarios::buffers_hook_averages {
namespace {

using namespace averaged_buffers;

constexpr const char *kIn = "in forward", *kAfter = "after forward", *kJoined = "after the join";

bool has(const Averaged& c, Forward kind) {
  return std::ranges::count(c.forwards, kind) > 0;
}

struct Thrown : std::runtime_error {
  Thrown() : runtime_error("planted in a forward") {}
};

class Counting : public Model {
 public:
  Counting(RankContext& here) : here_(here) {
    weight_ = register_parameter("weight", torch::ones({1}, at::kDouble));
    mean_ = register_buffer("mean", torch::full({2, 3}, kStart, at::kDouble).t());  // by columns
    register_buffer("empty", torch::empty({0}, at::kDouble));
    scalar_ = register_buffer("scalar", torch::full({}, kStart, at::kDouble));
    count_ = register_buffer("count", torch::zeros({1}, at::kLong));
  }

  at::Tensor forward(const at::Tensor& input) override {
    record(kIn);
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

  // Where this rank makes no forward.
  void record_nothing(const std::string& phase) {
    here_.enter(step, phase);
    for (const auto& buffer : named_buffers())
      here_.record(buffer.key(), torch::empty({0}, buffer.value().options()));
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
  const auto forward = [&](size_t f) {
    const auto kind = kinds[f];
    model->step = static_cast<int>(f);
    model->throws = kind == Forward::throws;
    model->train(kind != Forward::eval);
    const auto input = torch::full({1}, added(f, here.rank()), at::kDouble);
    try {
      const at::AutoGradMode with_gradients(kind != Forward::no_grad);
      const auto pass = [&] {
        const auto loss = replica->forward(input).sum();
        model->record(kAfter);
        if (kind != Forward::no_grad) replica->backward(loss);
      };
      if (kind == Forward::no_sync)
        replica->no_sync(pass);
      else
        pass();
    } catch (const Thrown&) {
      model->record(kAfter);
    }
  };
  const auto forwards = [&] {
    for (size_t f = 0; f < kinds.size(); ++f)
      if (makes(c, here.rank(), f) && !is_behind_the_join(c, f)) forward(f);
  };
  if (c.inputs.empty()) return forwards();
  replica->join(JoinKind::world, forwards);
  model->step = static_cast<int>(kinds.size()) - 1;
  model->record(kJoined);
  forward(kinds.size() - 1);
  for (size_t f = 0; f < kinds.size(); ++f) {
    if (makes(c, here.rank(), f)) continue;
    model->step = static_cast<int>(f);
    for (const auto* const phase : {kIn, kAfter}) model->record_nothing(phase);
  }
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

// Replaces the expected values of ranks without this forward.
void expect_nothing(const Averaged& c, size_t forward, std::vector<TensorValue>& expected,
                    at::ScalarType dtype) {
  for (size_t rank = 0; rank < expected.size(); ++rank)
    if (!makes(c, static_cast<int>(rank), forward))
      expected[rank] = recorded(torch::empty({0}, dtype), dtype);
}

// The rows of one moment of a forward; `of` takes what the buffers hold then.
template <class Of>
void compare_moment(const Averaged& c, const History& h, size_t f, const char* phase, const Of& of,
                    std::vector<Comparison>& rows) {
  const auto right = followed(c);
  const Moment at{static_cast<int>(f), phase};
  for (const bool is_scalar : {false, true}) {
    const auto shape = is_scalar ? std::vector<int64_t>{} : std::vector<int64_t>{3, 2};
    const auto if_it = [&c, of, shape, f](Mistake mistake) {
      auto values = means_of(of(followed(c, mistake)), shape);
      expect_nothing(c, f, values, at::kDouble);
      return values;
    };
    rows.push_back({.row = h.row(at, is_scalar ? "scalar" : "mean"),
                    .expected = if_it(Mistake::none),
                    .explanations = [if_it] {
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
  auto counts = counts_of(of(right));
  expect_nothing(c, f, counts, at::kLong);
  rows.push_back({.row = h.row(at, "count"), .expected = std::move(counts)});
}

Findings buffers_are_averaged_where_they_are_due(const Averaged& c, const History& h) {
  std::vector<Comparison> rows;
  const size_t forwards = forwards_of(c).size();
  for (size_t f = 0; f < forwards; ++f) {
    if (is_behind_the_join(c, f))
      compare_moment(
          c, h, f, kJoined, [](const Followed& all) { return all.joined; }, rows);
    compare_moment(
        c, h, f, kIn, [f](const Followed& all) { return all.in[f]; }, rows);
    compare_moment(
        c, h, f, kAfter, [f](const Followed& all) { return all.after[f]; }, rows);
  }
  return equal(
      "A hook must average buffers in the forwards that would broadcast them, at its place", rows);
}

std::string why_not_followed(const Averaged& c) {
  if (!c.inputs.empty() && has(c, Forward::throws))
    return "a rank without inputs cannot shadow a forward that throws";
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
  const auto any = gen::build<Averaged>(
      gen::set(&Averaged::world, world),
      gen::set(&Averaged::place, element(Place::before_forward, Place::after_forward)),
      gen::set(&Averaged::forwards,
               gen::lists(1, 7,
                          element(Forward::synced, Forward::synced, Forward::throws,
                                  Forward::no_sync, Forward::no_grad, Forward::eval))),
      gen::set(&Averaged::buffer_sync_lag),
      gen::set(&Averaged::inputs, rc::gen::weightedOneOf<std::vector<int>>(
                                      {{1, rc::gen::just(std::vector<int>{})},
                                       {1, gen::lists(2, 4, rc::gen::inRange(0, 8))}})));
  return changed(any, [](Averaged& c) {
    if (!c.inputs.empty()) std::erase(c.forwards, Forward::throws);
  });
}

bool has_uneven_inputs(const Averaged& c) {
  for (size_t f = 0; f + 1 < forwards_of(c).size(); ++f)
    for (int rank = 0; rank < c.world.size; ++rank)
      if (makes(c, rank, f) != makes(c, 0, f)) return true;
  return false;
}

}  // namespace

Scenario hook_averages() {
  return scenario<Averaged>({
      .name = "buffers.hook_averages",
      .claim = "A hook that averages buffers runs in the forwards that would broadcast them, and "
               "in no other.",
      .in_full =
          "A hook that averages buffers runs in the forwards that would broadcast them, before "
          "or behind the module's, and in no other.",
      .exactness = "bit-equal",
      .source = "DistributedDataParallel._register_buffer_comm_hook; docs/semantics.md 1.3",
      .not_covered = "hooks of a program's own, averages that round",
      .usual_mistake =
          "expecting that the average of one forward's statistics is theirs already in "
          "that forward's output.",
      .tags = {"buffers", "hooks"},
      .must_catch = {"buffer_hook_before_for_after", "buffer_hook_rounds_doubles",
                     "buffer_hook_stays_due_after_a_throw",
                     "buffer_hook_behind_a_forward_unshadowed", "buffer_hook_takes_rows_alone",
                     "averaged_buffers_lose_count_at_an_empty_one"},
      .draws = 60,
      .start = {.world = {.size = 2}},
      .every = pairs_of_forwards,
      .cases = cases(),
      .precondition = why_not_followed,
      .program = program,
      .checks = {buffers_are_averaged_where_they_are_due},
      .labels = {{"three ranks and more", 0.35, has_three_ranks<Averaged>},
                 {"a hook behind the forward", 0.2,
                  [](const Averaged& c) { return c.place == Place::after_forward; }},
                 {"a forward that throws", 0.12,
                  [](const Averaged& c) { return has(c, Forward::throws); }},
                 {"a local forward", 0.25,
                  [](const Averaged& c) { return has(c, Forward::no_sync); }},
                 {"ranks without inputs", 0.06, has_uneven_inputs},
                 {"no lag", 0.2, [](const Averaged& c) { return !c.buffer_sync_lag; }}},
  });
}

}  // namespace lockstep::scenarios::buffers_hook_averages
