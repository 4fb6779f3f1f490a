// SyncBatchNorm is not only for images: it takes any input with a channel axis, and one value per
// channel on a rank is enough if the group holds more than one.
//
// "Expected more than 1 value per channel" is a rule of one process. Over ranks it is a rule about
// the group: two ranks with one sample each and no axis after the channels have a variance. One
// value in the whole group has none, and then every rank must throw the same sentence, in a world
// of one too; if only one rank threw, its peers would hang.
#include "harness/core/compare.h"
#include "harness/core/scenario.h"
#include "harness/core/values.h"
#include "harness/recorder/rank_context.h"
#include "harness/worlds/subject.h"
#include "scenarios/cases/labels.h"
#include "scenarios/sync_batch_norm/expected.h"

#include <rapidcheck.h>
#include <torch/torch.h>

#include <numeric>

namespace lockstep::scenarios::sync_batch_norm_one_value_is_refused {
namespace {

using namespace sync_batch_norm;

void program(const Layer& c, RankContext& here) {
  const auto model = lockstep::sync_batch_norm(here, c.norm);
  set_state(*model, c);
  here.enter(0, "forward");
  const auto input = input_of(c, 0, here.rank());
  try {
    here.record(kOutput, model->forward(input));
  } catch (const std::exception& error) {
    const std::string sentence = error.what();
    here.record("refused", std::vector<int64_t>{1});
    here.record("sentence", std::vector<int64_t>(sentence.begin(), sentence.end()));
    here.record(kOutput, torch::empty({0}, dtype_of(c)));
    return;
  }
  here.record("refused", std::vector<int64_t>{0});
  here.record("sentence", std::vector<int64_t>{});
}

Findings one_value_is_refused_and_no_more(const Layer& c, const History& h) {
  const bool is_refused = values_per_channel(c) == 1;
  const auto explanation = [is_refused] {
    return Explanations{recorded_instead(
        is_refused ? Diagnosis{"normalised_one_value",
                               "a single value a channel was normalised, and has no variance"}
                   : Diagnosis{"refused_a_fitting_input",
                               "an input was refused that has a channel axis and, in the group, "
                               "more than one value a channel"},
        {int64_values({is_refused ? 0 : 1})})};
  };
  auto out = equal(
      "An input must be refused if the whole group holds one value a channel, and "
      "only then",
      {{.row = h.row({0, "forward"}, "refused"),
        .expected = {int64_values({is_refused ? 1 : 0})},
        .explanations = explanation}});
  out += alike("Every rank must be told the same sentence", {h.row({0, "forward"}, "sentence")});
  return out;
}

Findings the_rest_is_normalised(const Layer& c, const History& h) {
  if (values_per_channel(c) == 1) return {};
  const auto right = expected_steps(c).front().at(kOutput);
  return equal(
      "Every rank must normalise with the statistics of the whole batch",
      {{.row = h.row({0, "forward"}, kOutput), .expected = right.values, .bounds = right.bounds}});
}

const std::vector<std::vector<int>> kSpatial{{}, {1}, {3}, {2, 2}, {1, 2, 2}, {2, 1, 1, 2}};

// One sample on one rank, on each, on two of them; without or with further axes after the channels.
std::vector<Layer> every_shape() {
  std::vector<Layer> all;
  for (const int world : {1, 2, 3})
    for (const auto& spatial : kSpatial)
      for (const auto& samples :
           std::vector<std::vector<int>>{{1}, {1, 0, 0}, {0, 1, 0}, {0, 1, 1}, {3, 1, 2}})
        all.push_back({.world = {.size = world},
                       .norm = {.channels = 2},
                       .spatial = spatial,
                       .samples = samples,
                       .values = "real",
                       .seed = 14});
  return all;
}

rc::Gen<Layer> layers() {
  using rc::gen::inRange;
  using rc::gen::set;
  return rc::gen::build<Layer>(
      set(&Layer::world, rc::gen::build<WorldSpec>(set(&WorldSpec::size, inRange(2, 6)))),
      set(&Layer::norm, rc::gen::build<NormOptions>(
                            set(&NormOptions::channels, inRange<int64_t>(1, 5)),
                            set(&NormOptions::affine), set(&NormOptions::track_running_stats))),
      set(&Layer::spatial, rc::gen::elementOf(kSpatial)),
      set(&Layer::samples, rc::gen::container<std::vector<int>>(5, inRange(0, 2))),
      set(&Layer::dtype, rc::gen::element<std::string>("float32", "float64", "float16")),
      set(&Layer::seed, inRange<uint64_t>(0, 1 << 20)));
}

}  // namespace

Scenario one_value_is_refused() {
  return scenario<Layer>({
      .name = "sync_batch_norm.one_value_is_refused",
      .claim = "SyncBatchNorm takes any input with a channel axis, also one value per channel on a "
               "rank, unless the whole group holds one: then every rank throws the same sentence.",
      .exactness = "within rounding",
      .source = "torch.nn.SyncBatchNorm, whose input is (N, C, +) and which refuses one value in a "
                "world of one; docs/semantics.md 3",
      .not_covered = "inputs of other channels or dtypes than the layer's",
      .usual_mistake = "taking it for a layer of images, or requiring two values on each rank.",
      .tags = {"sync_batch_norm"},
      .must_catch = {"sync_batch_norm_one_value_accepted", "sync_batch_norm_for_images_only"},
      .draws = 30,
      .start = {.world = {.size = 2}},
      .every = every_shape,
      .cases = layers(),
      .program = program,
      .checks = {one_value_is_refused_and_no_more, the_rest_is_normalised},
      .labels = {{"three ranks and more", 0.2, has_three_ranks<Layer>}},
      .unused = {"steps", "upstream", "gradient_layout", "frozen", "half_parameters", "threads"},
  });
}

std::vector<Scenario> all() {
  return {one_value_is_refused()};
}

}  // namespace lockstep::scenarios::sync_batch_norm_one_value_is_refused
