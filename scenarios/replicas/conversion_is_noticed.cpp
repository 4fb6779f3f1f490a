// After the wrapped model is converted to another dtype and back, gradients are averaged as before,
// or the model is refused; synchronisation never ends without an error.
//
// to() gives a parameter new storage and drops the accumulator that carries a reducer's hook. A
// reducer that does not check continues without its gradients: each rank trains alone, and the loss
// still falls. Every rank converts, so every rank must notice.
#include "scenarios/cases/draw.h"
#include "scenarios/cases/expect.h"
#include "scenarios/cases/labels.h"
#include "scenarios/cases/options.h"

#include <torch/torch.h>

namespace lockstep::scenarios::replicas_conversion_is_noticed {
namespace {

void program(const Training& c, RankContext& here) {
  const auto model = std::make_shared<Network>(c, build_seed(c, here.rank()));
  if (c.network.order_by_rank) model->set_first_branch(here.rank());
  const auto replica = wrap(here, model, c.options);
  here.enter(0, "converted");
  model->to(c.dtype == Dtype::float64 ? at::kFloat : at::kDouble);
  model->to(dtype_of(c));
  try {
    replica->backward(loss_of_part(c, batch_index(c, 0, 0), here.rank(), *replica));
  } catch (const std::exception&) {
    here.record("refused", std::vector<int64_t>{1});
    return;
  }
  here.record("refused", std::vector<int64_t>{0});
  here.enter(0, "after backward");
  record_gradients(here, *model);
}

Findings averaged_or_refused(const Training& c, const History& h) {
  const auto refused = h.row({0, "converted"}, "refused");
  auto out = alike("Every rank must refuse a converted model, or none", {refused});
  if (!out.empty() || as_integers(refused.by_rank.front()).front() == 1) return out;
  out = gradients_are_defined(h.rows("after backward"));
  const auto steps = expected_steps(c);
  const auto names = trainable(c);
  std::vector<Comparison> rows;
  for (size_t p = 0; p < names.size(); ++p) {
    rows.push_back(compared(c, h.row({0, "after backward"}, names[p]), steps.front().average[p]));
    rows.back().explanations = [&, p] { return averaging_mistakes(c, steps, 0, p); };
  }
  out += equal("A model that was converted and converted back must be averaged, or refused", rows);
  return out;
}

// Whole numbers survive a narrower dtype.
std::string why_values_change(const Training& c) {
  return c.values == Values::exact ? "" : "a conversion may round real numbers";
}

rc::Gen<Training> cases() {
  return changed(trainings(), [](Training& c) {
    c.values = Values::exact;
    c.network.buffers.clear();
  });
}

}  // namespace

Scenario conversion_is_noticed() {
  return scenario<Training>({
      .name = "replicas.conversion_is_noticed",
      .claim =
          "A wrapped model that was converted to another dtype and back is averaged, or refused "
          "on every rank.",
      .exactness = "bit-equal",
      .source = "pytorch/pytorch#104336; docs/semantics.md 1.2",
      .not_covered = "other devices, a conversion on some ranks",
      .usual_mistake = "calling to() on the model after wrapping it.",
      .tags = {"replicas"},
      .must_catch = {"conversion_goes_unnoticed"},
      .draws = 30,
      .start = {.world = {.size = 2}},
      .cases = cases(),
      .precondition = why_values_change,
      .program = program,
      .checks = {averaged_or_refused},
      .cause =
          [](const Training&, std::string_view pattern) {
            return std::string(pattern == "not_reduced" ? kConvertedAfterWrapping : "");
          },
      .labels = {{"three ranks and more", 0.1, has_three_ranks<Training>},
                 {"several buckets", 0.06, has_several_buckets}},
      .unused = {"steps", "micro_batches", "groups", "optimizer", "learning_rate_log2"},
  });
}

}  // namespace lockstep::scenarios::replicas_conversion_is_noticed
