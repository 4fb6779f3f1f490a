// The counts of all ranks in an evaluation add up to those of one process, with each sample as
// often as the sampler says: once, where it does not pad.
//
// Every round trains one step and then evaluates the dataset: each rank its own samples, in as many
// batches as it has, so without padding ranks make different numbers of forwards, and in evaluation
// none of them may wait for another. The sums over ranks are compared with those over the samples
// that the reference deals out, and beside them the average of the ranks' accuracies, which users
// take for the same. Predictions depend on the parameter that the last step trained, so that an
// evaluation which disturbed a training, or a training that missed a step, changes what is counted.
// All numbers are whole.
#include "harness/cases/generators.h"
#include "harness/rank/rank_context.h"
#include "harness/verdict/compare.h"
#include "reference/sampling.h"
#include "scenarios/cases/labels.h"
#include "scenarios/cases/tensors.h"
#include "scenarios/evaluation/evaluated.h"

#include <torch/torch.h>

#include <numeric>

namespace lockstep::scenarios::evaluation_counts_each_sample_once {
namespace {

using namespace evaluation;

constexpr const char *kEvaluates = "evaluates", *kCounted = "counted", *kTotals = "totals",
                     *kAccuracies = "average of accuracies", *kWeight = "w";

Totals evaluate(const Evaluated& c, Replica& replica, const std::vector<int64_t>& samples) {
  Totals out;
  for (size_t at = 0; at < samples.size(); at += static_cast<size_t>(c.batch_size)) {
    const size_t end = std::min(at + static_cast<size_t>(c.batch_size), samples.size());
    const std::vector<int64_t> batch(samples.begin() + static_cast<std::ptrdiff_t>(at),
                                     samples.begin() + static_cast<std::ptrdiff_t>(end));
    std::vector<double> inputs;
    for (const auto sample : batch) inputs.push_back(static_cast<double>(input_of(c, sample)));
    const auto [samples_of_batch, right] =
        counted(c, batch, replica.forward(torch::tensor(inputs, at::kDouble)).detach());
    out.samples += samples_of_batch;
    out.right += right;
  }
  return out;
}

void program(const Evaluated& c, RankContext& here) {
  const auto model = scaled();
  const auto replica = wrap(here, model, {});
  const auto sampler = shard(here, {.length = c.length,
                                    .shuffle = c.shuffle,
                                    .drop_last = c.drop_last,
                                    .pad = c.pad,
                                    .seed = static_cast<int64_t>(c.seed),
                                    .batch_size = c.batch_size});
  torch::optim::SGD optimizer(model->parameters(), 1.0);
  for (int round = 0; round < c.rounds; ++round) {
    here.enter(round, "trains");
    optimizer.zero_grad();
    model->train();
    replica->backward(
        replica->forward(torch::full({1}, gradient_of(c, round, here.rank()), at::kDouble)).sum());
    optimizer.step();
    sampler->set_epoch(round);
    const auto samples = sampler->draw();
    here.enter(round, kEvaluates);
    model->eval();
    Totals totals;
    if (c.with_gradients) {
      replica->no_sync([&] { totals = evaluate(c, *replica, samples); });
    } else {
      const at::NoGradGuard no_grad;
      totals = evaluate(c, *replica, samples);
    }
    here.enter(round, kCounted);
    const auto sums = torch::tensor({totals.samples, totals.right}, at::kLong);
    const auto accuracies = torch::full({1}, accuracy(totals), at::kDouble);
    collective(here, {.kind = CollectiveKind::all_reduce, .tensor = sums, .parts = {}});
    collective(here, {.kind = CollectiveKind::all_reduce,
                      .tensor = accuracies,
                      .reduction = ReductionKind::avg,
                      .parts = {}});
    here.record(kTotals, sums);
    here.record(kAccuracies, accuracies);
    here.record(kWeight, model->parameters().front().detach());
  }
}

TensorValue totals_of(const Totals& totals) {
  return int64_values({totals.samples, totals.right});
}

Findings the_world_counts_as_one_process(const Evaluated& c, const History& h) {
  std::vector<Comparison> totals, accuracies, weights;
  for (int round = 0; round < c.rounds; ++round) {
    Totals sum;
    double sum_of_accuracies = 0;
    std::vector<TensorValue> own;
    for (int rank = 0; rank < c.world.size; ++rank) {
      const auto part = expected_of(c, round, samples_of(c, round, rank));
      sum = {.samples = sum.samples + part.samples, .right = sum.right + part.right};
      sum_of_accuracies += accuracy(part);
      own.push_back(totals_of(part));
    }
    std::vector<int64_t> all(static_cast<size_t>(c.length));
    std::iota(all.begin(), all.end(), 0);
    if (!c.pad && !c.drop_last && sum != expected_of(c, round, all))
      throw std::logic_error("the reference deals samples out more or less than once");
    totals.push_back({.row = h.row({round, kCounted}, kTotals),
                      .expected = {totals_of(sum)},
                      .explanations = [own] { return Explanations{not_reduced(own)}; }});
    accuracies.push_back(
        {.row = h.row({round, kCounted}, kAccuracies),
         .expected = {recorded(torch::full({1}, sum_of_accuracies / c.world.size, at::kDouble),
                               at::kDouble)},
         .bounds = {recorded(torch::full({1}, std::ldexp(c.world.size, -52), at::kDouble),
                             at::kDouble)},
         .explanations = [] { return Explanations{sum_not_average("accuracies")}; }});
    weights.push_back({.row = h.row({round, kCounted}, kWeight),
                       .expected = {recorded(torch::full({1}, weight_after(c, round), at::kDouble),
                                             at::kDouble)}});
  }
  Findings out = equal("Training must go on between evaluations", weights);
  out += equal("The ranks together must count what one process counts", totals);
  out += equal("An average over ranks must be that of the ranks' own values", accuracies);
  return out;
}

Findings evaluation_is_local(const Evaluated& c, const History& h) {
  for (int round = 0; round < c.rounds; ++round)
    for (int rank = 0; rank < h.size(); ++rank) {
      const auto issued = h.collectives(rank, {round, kEvaluates});
      if (issued.empty()) continue;
      return {{"Evaluation must communicate nothing", "collective_in_evaluation",
               "round " + std::to_string(round) + ", " + kEvaluates,
               "rank " + std::to_string(rank) + " issued a collective, " + issued.front().op +
                   ", in evaluation"}};
    }
  return {};
}

std::vector<Evaluated> every_small_one() {
  std::vector<Evaluated> all;
  for (const int world : {2, 3})
    for (const int64_t length : {1, 4, 7})
      for (const bool pad : {true, false})
        for (const bool with_gradients : {true, false})
          all.push_back({.world = {.size = world},
                         .rounds = 2,
                         .length = length,
                         .batch_size = 2,
                         .pad = pad,
                         .shuffle = true,
                         .with_gradients = with_gradients,
                         .seed = 1});
  return all;
}

rc::Gen<Evaluated> cases() {
  using gen::set;
  using rc::gen::arbitrary;
  using rc::gen::inRange;
  return gen::build<Evaluated>(
      set(&Evaluated::world,
          gen::build<WorldSpec>(set(&WorldSpec::size, rc::gen::element(2, 3, 3, 4, 5, 5)))),
      set(&Evaluated::rounds, inRange(1, 5)), set(&Evaluated::length, inRange<int64_t>(1, 24)),
      set(&Evaluated::batch_size, inRange<int64_t>(1, 5)),
      set(&Evaluated::pad, rc::gen::weightedElement<bool>({{1, true}, {5, false}})),
      set(&Evaluated::drop_last, rc::gen::weightedElement<bool>({{6, false}, {1, true}})),
      set(&Evaluated::shuffle, arbitrary<bool>()),
      set(&Evaluated::with_gradients, arbitrary<bool>()),
      set(&Evaluated::seed, inRange<uint64_t>(0, 1 << 20)));
}

bool counts_unequally_many(const Evaluated& c) {
  return !c.pad && !c.drop_last && c.length % c.world.size != 0;
}

}  // namespace

Scenario counts_each_sample_once() {
  return scenario<Evaluated>({
      .name = "evaluation.counts_each_sample_once",
      .claim =
          "Sums over the ranks of what each counted in an evaluation are those of one process.",
      .in_full =
          "Sums over the ranks of what each counted in an evaluation are those of one process "
          "over the same samples, each once where the sampler does not pad, and no rank waits "
          "for another while it evaluates.",
      .exactness = "equal",
      .source = "docs/semantics.md 1.3 and 4; the evaluation of PyTorch's text classification "
                "tutorial",
      .not_covered = "models with buffers, metrics that are no sums",
      .usual_mistake = "all-reducing accuracies and dividing by the world size: ranks of unequal "
                       "parts, or padded samples, count more than others.",
      .tags = {"evaluation", "sampler", "collectives"},
      .must_catch = {"average_of_a_program_is_a_sum", "evaluation_counts_as_a_forward_of_training"},
      .draws = 80,
      .start = {.world = {.size = 2}},
      .every = every_small_one,
      .cases = cases(),
      .program = program,
      .checks = {evaluation_is_local, the_world_counts_as_one_process},
      .labels = {{"three ranks and more", 0.5, has_three_ranks<Evaluated>},
                 {"ranks with unequally many samples", 0.2, counts_unequally_many},
                 {"fewer samples than ranks", 0.05,
                  [](const Evaluated& c) { return c.length < c.world.size; }},
                 {"several rounds", 0.4, [](const Evaluated& c) { return c.rounds > 1; }}},
  });
}

}  // namespace lockstep::scenarios::evaluation_counts_each_sample_once
