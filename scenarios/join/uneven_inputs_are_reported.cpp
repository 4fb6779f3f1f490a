// If ranks have unequally many inputs, all of them throw the same sentence in the same step,
// otherwise none does; and the steps they made together, and later ones, are averaged as usual.
//
// A rank that runs out of inputs and leaves its loop makes its peers hang: in the middle of their
// forward, in a SyncBatchNorm or the broadcast of buffers, or in the reduction of gradients. Nor
// may some ranks make a step that others have not made, since their parameters would differ from
// then on. So ranks exchange whether they still have inputs before anything of a step is sent, also
// if that step is local, inside no_sync.
//
// Why the checks suffice: a rank that waits in vain hangs, which needs no check. A layer that
// exchanges statistics runs in parallel to the network, times zero, so that its collectives are
// issued where a model's would be and the gradients stay those of the reference; its counter counts
// the forwards that it has begun. Anything sent by a step that threw would be matched by the step
// after the join.
#include "harness/base/values.h"
#include "harness/cases/generators.h"
#include "scenarios/cases/draw.h"
#include "scenarios/cases/expect.h"
#include "scenarios/cases/labels.h"
#include "scenarios/cases/sentences.h"
#include "scenarios/join/uneven.h"

#include <torch/torch.h>

#include <algorithm>

namespace lockstep::scenarios::join_uneven_inputs_are_reported {
namespace {

constexpr const char *kWindow = "after backward", *kEnd = "after the join",
                     *kNext = "after the next backward";

bool is_uneven(const Uneven& c) {
  for (int rank = 0; rank < c.world.size; ++rank)
    if (inputs_of(c, rank) > common_inputs(c)) return true;
  return false;
}

// One that exchanges statistics is counted, with gradients or without.
int forwards_of_the_layer(const Uneven& c) {
  return c.normalises ? common_inputs(c) * (c.probes ? 2 : 1) : 0;
}

class NetworkWithNorm : public Model {
 public:
  NetworkWithNorm(std::shared_ptr<Model> network, std::shared_ptr<Model> norm)
      : network_(register_module("network", std::move(network))),
        norm_(norm ? register_module("beside", std::move(norm)) : nullptr) {}
  at::Tensor forward(const at::Tensor& input) override {
    const auto output = network_->forward(input);
    return norm_ ? output + norm_->forward(output) * 0 : output;
  }

 private:
  std::shared_ptr<Model> network_, norm_;
};

void program(const Uneven& c, RankContext& here) {
  const auto training = training_of(c);
  const auto network = std::make_shared<Network>(training, build_seed(training, here.rank()));
  if (c.network.order_by_rank) network->set_first_branch(here.rank());
  const auto norm = c.normalises ? lockstep::sync_batch_norm(here, {.channels = 1}) : nullptr;
  const auto model = std::make_shared<NetworkWithNorm>(network, norm);
  const auto replica = wrap(here, model, c.options);
  const auto take = [&](int input) {
    if (c.probes) {
      const at::NoGradGuard no_grad;
      loss_of_part(training, input, here.rank(), *replica);
    }
    replica->backward(loss_of_part(training, input, here.rank(), *replica));
  };
  int64_t taken = 0;
  const auto take_in_its_window = [&](int input) {
    if (input % c.micro_batches == 0) model->zero_grad();
    const bool is_last = (input + 1) % c.micro_batches == 0;
    is_last ? take(input) : replica->no_sync([&] { take(input); });
    ++taken;
    if (!is_last) return;
    here.enter(input / c.micro_batches, kWindow);
    record_gradients(here, *network);
  };
  std::string sentence;
  try {
    replica->join(JoinKind::throws, [&] {
      for (int input = 0; input < inputs_of(c, here.rank()); ++input) take_in_its_window(input);
    });
  } catch (const Unsupported&) {
    throw;
  } catch (const std::exception& error) {
    sentence = error.what();
  }
  here.enter(0, kEnd);
  here.record("taken", std::vector<int64_t>{taken});
  here.record("reported", std::vector<int64_t>{sentence.empty() ? 0 : 1});
  record_sentence(here, "sentence", sentence);
  const auto seen = norm ? norm->named_buffers()["norm.num_batches_tracked"].item<int64_t>() : 0;
  here.record("normalised", std::vector<int64_t>{seen});

  model->zero_grad();
  const int next = whole_windows(c);
  const auto take_the_next_window = [&] {
    for (int m = 0; m + 1 < c.micro_batches; ++m)
      replica->no_sync([&] { take(batch_index(training, next, m)); });
    take(batch_index(training, next, c.micro_batches - 1));
  };
  c.joins_again ? replica->join(JoinKind::throws, take_the_next_window) : take_the_next_window();
  here.enter(next, kNext);
  record_gradients(here, *network);
}

Findings all_ranks_stop_together(const Uneven& c, const History& h) {
  const Moment end{0, kEnd};
  auto out = equal(
      "Every rank must take the inputs that all ranks have, and then receive an error if some "
      "have more; a layer must not begin a step that is not made",
      {{.row = h.row(end, "taken"), .expected = {int64_values({common_inputs(c)})}},
       {.row = h.row(end, "reported"), .expected = {int64_values({is_uneven(c) ? 1 : 0})}},
       {.row = h.row(end, "normalised"), .expected = {int64_values({forwards_of_the_layer(c)})}}});
  const auto sentences = h.row(end, "sentence");
  if (is_in_our_words(sentences)) out += all_received_one_sentence(sentences);
  return out;
}

Findings the_steps_made_are_averaged(const Uneven& c, const History& h) {
  Findings out;
  const auto training = training_of(c);
  const auto steps = expected_steps(training);
  const auto names = trainable(training);
  for (int s = 0; s < training.steps; ++s) {
    const auto* const phase = s + 1 < training.steps ? kWindow : kNext;
    std::vector<Comparison> rows;
    for (size_t p = 0; p < names.size(); ++p) {
      rows.push_back(compared(training, h.row({s, phase}, names[p]),
                              steps[static_cast<size_t>(s)].average[p]));
      rows.back().explanations = [&, s, p] { return averaging_mistakes(training, steps, s, p); };
    }
    out += equal(
        "A step that all ranks made must hold the average, before uneven inputs end a join and "
        "after it",
        rows);
  }
  return out;
}

const std::vector<std::vector<int>> kInputs{{},     {0},    {1, 2},    {2, 1},   {0, 1},
                                            {1, 0}, {3, 2}, {3, 1, 2}, {2, 2, 1}};

std::vector<Uneven> every_small_one() {
  std::vector<Uneven> all;
  for (const int world : {1, 2, 3, 4, 5})
    for (const auto& inputs : kInputs)
      for (const bool normalises : {false, true})
        for (const int micro_batches : {1, 2})
          all.push_back(
              {.world = {.size = world},
               .inputs = inputs,
               .micro_batches = micro_batches,
               .normalises = normalises,
               .network = {.branches = 2, .buffers = {Dtype::int64}, .order_by_rank = true},
               .batch_log2 = 2,
               .options = {.bucket_cap_bytes = 1},
               .seed = 5});
  for (const auto& inputs : kInputs)
    all.push_back({.world = {.size = 2},
                   .inputs = inputs,
                   .normalises = true,
                   .probes = true,
                   .batch_log2 = 2});
  all.push_back({.world = {.size = 2}, .micro_batches = 2, .options = {.static_graph = true}});
  return all;
}

rc::Gen<Uneven> cases() {
  return gen::apply(
      [](const Training& t, const std::vector<int>& inputs, int micro_batches, bool normalises,
         bool joins_again, bool probes) {
        return Uneven{.world = t.world,
                      .inputs = inputs,
                      .micro_batches = micro_batches,
                      .normalises = normalises,
                      .joins_again = joins_again,
                      .probes = probes,
                      .network = t.network,
                      .batch_log2 = std::max(t.batch_log2, 1),
                      .shares = t.shares,
                      .options = t.options,
                      .dtype = t.dtype,
                      .values = t.values,
                      .seed = t.seed};
      },
      trainings(), gen::lists(5, rc::gen::inRange(0, 5)), rc::gen::inRange(1, 4),
      rc::gen::arbitrary<bool>(), rc::gen::arbitrary<bool>(),
      rc::gen::weightedElement<bool>({{3, false}, {1, true}}));
}

}  // namespace

Scenario uneven_inputs_are_reported() {
  return scenario<Uneven>({
      .name = "join.uneven_inputs_are_reported",
      .former_name = "join.uneven_inputs_are_told",
      .claim = "If some ranks have fewer inputs than others, all ranks throw the same sentence in "
               "the same step.",
      .in_full =
          "If some ranks have fewer inputs than others, all ranks throw the same sentence in "
          "the same step, before anything of that step is sent, and otherwise none does; the "
          "steps they made together, and later ones, are averaged as usual.",
      .exactness = "bit-equal · real: bounded",
      .source = "torch.distributed.algorithms.Join with throw_on_early_termination; "
                "docs/semantics.md 5",
      .not_covered = "parameters that learn, a rank that leaves its loop with an exception",
      .usual_mistake = "a data loader that gives one rank a batch more, so that it waits for the "
                       "others for ever.",
      .tags = {"join"},
      .must_catch = {"join_asks_behind_the_forward", "join_ended_by_an_error_lives_on",
                     "join_local_forwards_uncounted", "join_out_of_inputs_in_silence",
                     "join_overlooks_forwards_of_layers"},
      .draws = 60,
      .start = {.world = {.size = 2}},
      .every = every_small_one,
      .cases = cases(),
      .program = program,
      .checks = {all_ranks_stop_together, the_steps_made_are_averaged},
      .labels = {{"three ranks and more", 0.25, has_three_ranks<Uneven>},
                 {"uneven inputs", 0.4, is_uneven},
                 {"another join behind one that threw", 0.15,
                  [](const Uneven& c) { return c.joins_again && is_uneven(c); }},
                 {"windows of no_sync", 0.25, [](const Uneven& c) { return c.micro_batches > 1; }},
                 {"forwards without gradients in which a layer communicates", 0.04,
                  [](const Uneven& c) { return c.probes && c.normalises; }},
                 {"a layer that communicates", 0.1, [](const Uneven& c) { return c.normalises; }}},
  });
}

}  // namespace lockstep::scenarios::join_uneven_inputs_are_reported
