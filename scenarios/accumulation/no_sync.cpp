// Gradient accumulation: a window of micro-batches whose gradients add up locally, and one
// reduction of the sum at its end.
//
// Inside the window every rank must hold its own sum, recorded after each micro-batch; a subject
// that reduces early, or only the last micro-batch, leaves other numbers. The trace shows the
// collectives of each backward: none inside the window, and some at its end, which is what no_sync
// is for. Whether a backward reduces is decided by its forward: in the second scenario each
// backward runs inside no_sync if its forward ran outside, and the reverse, and the expected values
// stay the same.
#include "harness/base/text.h"
#include "scenarios/cases/draw.h"
#include "scenarios/cases/expect.h"
#include "scenarios/cases/labels.h"

#include <torch/torch.h>

#include <cmath>

namespace lockstep::scenarios::accumulation_no_sync {
namespace {

std::vector<Training> every_small_one() {
  std::vector<Training> all;
  for (const int world : {2, 3})
    for (const int micro_batches : {2, 3, 4})
      for (const int steps : {1, 2})
        for (const int64_t cap : {0, 1})
          for (const auto values : {Values::exact, Values::real})
            all.push_back({.world = {.size = world},
                           .steps = steps,
                           .batch_log2 = 2,
                           .shares = {1, 3},
                           .micro_batches = micro_batches,
                           .options = {.bucket_cap_bytes = cap},
                           .values = values,
                           .seed = 4});
  return all;
}

rc::Gen<Training> cases() {
  return with(trainings(), &Training::micro_batches, rc::gen::inRange(2, 5));
}

std::string backward_of(int micro_batch) {
  return "backward of micro-batch " + std::to_string(micro_batch);
}
std::string after(int micro_batch) {
  return "after micro-batch " + std::to_string(micro_batch);
}

using MicroBatch = std::function<void(int step, int micro_batch, Replica&)>;

// Trains with all micro-batches of a window `local` except the last, which is `synchronised`.
void train(const Training& c, RankContext& here, const MicroBatch& local,
           const MicroBatch& synchronised) {
  const auto model = std::make_shared<Network>(c, build_seed(c, here.rank()));
  if (c.network.order_by_rank) model->set_first_branch(here.rank());
  const auto replica = wrap(here, model, c.options);
  torch::optim::SGD optimizer(model->parameters(), std::ldexp(1.0, c.learning_rate_log2));
  for (int step = 0; step < c.steps; ++step) {
    optimizer.zero_grad();
    for (int m = 0; m < c.micro_batches; ++m) {
      (m + 1 < c.micro_batches ? local : synchronised)(step, m, *replica);
      here.enter(step, after(m));
      record_gradients(here, *model);
    }
    if (c.optimizer == OptimizerKind::sgd) optimizer.step();
  }
}

void no_sync_around_forward_and_backward(const Training& c, RankContext& here) {
  const MicroBatch synchronised = [&](int step, int m, Replica& replica) {
    here.enter(step, "forward");
    const auto loss = loss_of_part(c, batch_index(c, step, m), here.rank(), replica);
    here.enter(step, backward_of(m));
    replica.backward(loss);
  };
  const MicroBatch local = [&](int step, int m, Replica& replica) {
    replica.no_sync([&] { synchronised(step, m, replica); });
  };
  train(c, here, local, synchronised);
}

void backward_on_the_other_side(const Training& c, RankContext& here) {
  const auto forward = [&](int step, int m, Replica& replica) {
    here.enter(step, "forward");
    return loss_of_part(c, batch_index(c, step, m), here.rank(), replica);
  };
  const MicroBatch local = [&](int step, int m, Replica& replica) {
    at::Tensor loss;
    replica.no_sync([&] { loss = forward(step, m, replica); });
    here.enter(step, backward_of(m));
    replica.backward(loss);
  };
  const MicroBatch synchronised = [&](int step, int m, Replica& replica) {
    const auto loss = forward(step, m, replica);
    here.enter(step, backward_of(m));
    replica.no_sync([&] { replica.backward(loss); });
  };
  train(c, here, local, synchronised);
}

// A parameter's gradient by rank.
std::vector<reference::Rounded> of_parameter(
    const std::vector<std::vector<reference::Rounded>>& by_rank, size_t p) {
  std::vector<reference::Rounded> out;
  for (const auto& rank : by_rank) out.push_back(rank[p]);
  return out;
}

at::Tensor average(const std::vector<std::vector<reference::Rounded>>& by_rank, size_t p) {
  auto sum = at::zeros_like(by_rank.front()[p].value);
  for (const auto& rank : by_rank) sum = sum + rank[p].value;
  return sum / static_cast<double>(by_rank.size());
}

// The values that mistakes at the window's end would leave: the average of some micro-batches, and
// each rank's own sum of the others.
Explanations boundary_mistakes(const Training& c, const std::vector<ExpectedStep>& steps, int s,
                               size_t p) {
  auto out = averaging_mistakes(c, steps, s, p);
  if (c.micro_batches < 2) return out;
  const auto& step = steps[static_cast<size_t>(s)];
  const auto& before = step.accumulated[step.accumulated.size() - 2];
  const auto average_before = average(before, p);
  const auto average_last = step.average[p].value - average_before;
  std::vector<TensorValue> last_alone, last_left_out;
  for (size_t rank = 0; rank < before.size(); ++rank) {
    const auto own_last = step.local()[rank][p].value - before[rank][p].value;
    last_alone.push_back(recorded(before[rank][p].value + average_last, dtype_of(c)));
    last_left_out.push_back(recorded(average_before + own_last, dtype_of(c)));
  }
  out.push_back(recorded_instead(
      {"window_not_reduced",
       "only the last micro-batch was averaged; what had added up before it stayed local"},
      last_alone));
  out.push_back(
      recorded_instead({"last_micro_batch_left_out",
                        "the last micro-batch was added after the reduction: it stayed local"},
                       last_left_out));
  return out;
}

Findings windows_add_up(const Training& c, const History& h) {
  Findings out;
  const auto steps = expected_steps(c);
  const auto names = trainable(c);
  for (int m = 0; m < c.micro_batches; ++m) out += gradients_are_defined(h.rows(after(m)));
  for (int s = 0; s < c.steps; ++s) {
    const auto& step = steps[static_cast<size_t>(s)];
    for (int m = 0; m + 1 < c.micro_batches; ++m) {
      std::vector<Comparison> rows;
      const auto& own = step.accumulated[static_cast<size_t>(m)];
      for (size_t p = 0; p < names.size(); ++p) {
        rows.push_back(compared(c, h.row({s, after(m)}, names[p]), of_parameter(own, p)));
        rows.back().explanations = [&own, p, &c] {
          return Explanations{
              recorded_instead({"reduced_inside_no_sync",
                                "the average over the ranks: no_sync did not keep it local"},
                               {recorded(average(own, p), dtype_of(c))})};
        };
      }
      out += equal("Inside no_sync every rank must hold the sum of its own gradients", rows);
    }
    std::vector<Comparison> rows;
    for (size_t p = 0; p < names.size(); ++p) {
      rows.push_back(
          compared(c, h.row({s, after(c.micro_batches - 1)}, names[p]), step.average[p]));
      rows.back().explanations = [&, s, p] { return boundary_mistakes(c, steps, s, p); };
    }
    out +=
        equal("After a window every rank must hold the gradient of one process on all of it", rows);
  }
  return out;
}

Findings a_window_is_reduced_once(const Training& c, const History& h) {
  for (int rank = 0; rank < h.size(); ++rank)
    for (int step = 0; step < c.steps; ++step)
      for (int m = 0; m < c.micro_batches; ++m) {
        const auto seen = h.collectives(rank, {step, backward_of(m)}).size();
        const bool is_last = m + 1 == c.micro_batches;
        if (is_last == (seen > 0)) continue;
        const auto where = "step " + std::to_string(step) + ", " + backward_of(m);
        return {{"Only the last backward of a window must communicate",
                 is_last ? "window_not_reduced" : "reduced_inside_no_sync", where,
                 "rank " + std::to_string(rank) + " issued " + counted(seen, "collective") +
                     " in the " + backward_of(m) + " of " + std::to_string(c.micro_batches)}};
      }
  return {};
}

}  // namespace

Scenario no_sync_accumulates() {
  return scenario<Training>({
      .name = "accumulation.no_sync_accumulates",
      .claim = "Inside no_sync gradients add up without communication, and the next backward "
               "averages their sum.",
      .in_full = "Inside no_sync gradients add up on each rank without communication; the first "
                 "backward after it averages the whole sum, once.",
      .exactness = "bit-equal · real: bounded",
      .source = "torch.nn.parallel.DistributedDataParallel.no_sync; docs/semantics.md 1.4",
      .not_covered = "windows that are cut short, static graphs, buffers (see buffers.*)",
      .usual_mistake =
          "leaving the last micro-batch inside no_sync, so that nothing is ever reduced.",
      .tags = {"core", "accumulation"},
      .must_catch = {"no_sync_ignored"},
      .draws = 70,
      .start = {.world = {.size = 2}, .micro_batches = 2},
      .every = every_small_one,
      .cases = cases(),
      .precondition = why_no_reference,
      .program = no_sync_around_forward_and_backward,
      .checks = {windows_add_up, a_window_is_reduced_once},
      .labels = {{"three ranks and more", 0.3, has_three_ranks<Training>},
                 {"parts of unequal size", 0.4, has_unequal_parts},
                 {"several buckets", 0.2, has_several_buckets},
                 {"a window of three and more", 0.3,
                  [](const Training& c) { return c.micro_batches > 2; }}},
      .unused = {"groups"},
  });
}

Scenario is_decided_at_forward() {
  return scenario<Training>({
      .name = "accumulation.is_decided_at_forward",
      .claim = "Whether a backward reduces was decided at its forward: no_sync around the backward "
               "alone changes nothing.",
      .exactness = "bit-equal · real: bounded",
      .source = "torch.nn.parallel.DistributedDataParallel.no_sync: \"The forward pass should be "
                "included inside the context manager\"; docs/semantics.md 1.4",
      .not_covered = "several forwards before one backward",
      .usual_mistake = "putting no_sync around the backward alone, and paying for every reduction.",
      .tags = {"accumulation"},
      .must_catch = {"no_sync_decided_at_backward"},
      .draws = 60,
      .start = {.world = {.size = 2}, .micro_batches = 2},
      .every = every_small_one,
      .cases = cases(),
      .precondition = why_no_reference,
      .program = backward_on_the_other_side,
      .checks = {windows_add_up, a_window_is_reduced_once},
      .labels = {{"three ranks and more", 0.3, has_three_ranks<Training>},
                 {"parts of unequal size", 0.35, has_unequal_parts},
                 {"several buckets", 0.15, has_several_buckets},
                 {"a window of three and more", 0.25,
                  [](const Training& c) { return c.micro_batches > 2; }}},
      .unused = {"groups"},
  });
}

}  // namespace lockstep::scenarios::accumulation_no_sync
