// SyncBatchNorm is not only for images: it takes any input with a channel axis, and one value per
// channel on a rank is enough if the group holds more than one.
//
// "Expected more than 1 value per channel" is a rule of one process. Over ranks it is a rule about
// the group: two ranks with one sample each and no axis after the channels have a variance. One
// value in the whole group has none, and then every rank must throw the same sentence, in a world
// of one too; if only one rank threw, its peers would hang.
//
// So must every rank where one could take no part in the backward: if some rank's input requires a
// gradient, every rank's backward joins a sum, and a rank whose output requires none has no
// backward. Its part of the batch may be empty: it is waited for all the same.
#include "harness/base/values.h"
#include "harness/cases/generators.h"
#include "harness/cases/scenario.h"
#include "harness/rank/rank_context.h"
#include "harness/verdict/compare.h"
#include "harness/worlds/subject.h"
#include "scenarios/cases/labels.h"
#include "scenarios/cases/sentences.h"
#include "scenarios/sync_batch_norm/expected.h"

#include <torch/torch.h>

#include <numeric>

namespace lockstep::scenarios::sync_batch_norm_one_value_is_refused {
namespace {

using namespace sync_batch_norm;

bool input_requires_gradient(const Layer& c, int rank) {
  return c.upstream == Upstream::all || (c.upstream == Upstream::some && rank % 2 == 0);
}

// Some rank would wait in backward for one that has none.
bool lacks_a_backward(const Layer& c) {
  if (learns(c, "weight") || learns(c, "bias")) return false;
  bool one_requires = false, all_require = true;
  for (int rank = 0; rank < c.world.size; ++rank) {
    one_requires = one_requires || input_requires_gradient(c, rank);
    all_require = all_require && input_requires_gradient(c, rank);
  }
  return values_per_channel(c) > 1 && one_requires && !all_require;
}

bool is_refused(const Layer& c) {
  return values_per_channel(c) == 1 || lacks_a_backward(c);
}

void program(const Layer& c, RankContext& here) {
  const auto model = lockstep::sync_batch_norm(here, c.norm);
  set_state(*model, c);
  here.enter(0, "forward");
  auto input = input_of(c, 0, here.rank()).detach();
  input.requires_grad_(input_requires_gradient(c, here.rank()));
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

Diagnosis wrong_answer(const Layer& c) {
  if (values_per_channel(c) == 1)
    return {"normalised_one_value", "a single value a channel was normalised, and has no variance"};
  if (lacks_a_backward(c))
    return {"normalised_without_a_backward",
            "an input was normalised although some rank's output requires no gradient, so that its "
            "peers' backward waits for it"};
  return {"refused_a_fitting_input",
          "an input was refused that has a channel axis and, in the group, more than one value a "
          "channel"};
}

std::string sentence_of(const History& h, int rank) {
  return sentence_in(h.row({0, "forward"}, "sentence"), rank);
}

Findings what_cannot_be_trained_is_refused_and_no_more(const Layer& c, const History& h) {
  const int64_t expected = is_refused(c) ? 1 : 0;
  const auto explanation = [&c, expected] {
    return Explanations{recorded_instead(wrong_answer(c), {int64_values({1 - expected})})};
  };
  auto out = equal(
      "An input must be refused if the whole group holds one value a channel, or if a rank's "
      "backward would be missing, and only then",
      {{.row = h.row({0, "forward"}, "refused"),
        .expected = {int64_values({expected})},
        .explanations = explanation}});
  for (auto& finding : out)
    for (int rank = 0; rank < c.world.size; ++rank)
      if (const auto sentence = sentence_of(h, rank); !sentence.empty())
        finding.details.push_back("rank " + std::to_string(rank) + " refused: " + sentence);
  out += all_received_one_sentence(h.row({0, "forward"}, "sentence"));
  return out;
}

// The only rank that has a value.
int holder_of(const Layer& c) {
  int rank = 0;
  while (samples_of(c, rank) == 0) ++rank;
  return rank;
}

Findings the_rank_with_the_value_is_named(const Layer& c, const History& h) {
  if (values_per_channel(c) != 1) return {};
  const auto sentence = sentence_of(h, 0);
  const auto expected = "rank " + std::to_string(holder_of(c)) + " has one";
  if (sentence.empty() || sentence.ends_with(expected)) return {};  // accepted: judged above
  if (sentence.find("has one") == std::string::npos)
    return {{"One value a channel must be refused for that alone", "refused_a_fitting_input",
             "forward",
             "an input whose shape fits was refused, and not for its one value a channel: '" +
                 sentence + "'"}};
  return {{"The sentence must name the rank that has the only value", "names_other_ranks",
           "forward", "the sentence is '" + sentence + "', expected '... " + expected + "'"}};
}

Findings the_rest_is_normalised(const Layer& c, const History& h) {
  if (is_refused(c)) return {};
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
                       .values = Values::real,
                       .seed = 14});
  for (const int world : {2, 3})
    for (const auto& samples : std::vector<std::vector<int>>{{2}, {3, 0, 1}, {0, 2, 0}, {0}})
      for (const auto upstream : {Upstream::all, Upstream::some, Upstream::none})
        for (const auto frozen : {FrozenOfLayer::none, FrozenOfLayer::weight, FrozenOfLayer::both})
          all.push_back({.world = {.size = world},
                         .norm = {.channels = 2},
                         .samples = samples,
                         .upstream = upstream,
                         .frozen = frozen,
                         .seed = 16});
  return all;
}

rc::Gen<Layer> layers() {
  using gen::set;
  using rc::gen::inRange;
  return gen::build<Layer>(
      set(&Layer::world, gen::build<WorldSpec>(set(&WorldSpec::size, inRange(2, 6)))),
      set(&Layer::norm, gen::build<NormOptions>(set(&NormOptions::channels, inRange<int64_t>(1, 5)),
                                                set(&NormOptions::affine),
                                                set(&NormOptions::track_running_stats))),
      set(&Layer::spatial, rc::gen::elementOf(kSpatial)),
      set(&Layer::samples, gen::lists(5, inRange(0, 2))),
      set(&Layer::upstream, rc::gen::element(Upstream::all, Upstream::some, Upstream::some,
                                             Upstream::some, Upstream::none)),
      set(&Layer::frozen, rc::gen::element(FrozenOfLayer::none, FrozenOfLayer::weight,
                                           FrozenOfLayer::bias, FrozenOfLayer::both)),
      set(&Layer::dtype, rc::gen::element(Dtype::float32, Dtype::float64, Dtype::float16)),
      set(&Layer::seed, inRange<uint64_t>(0, 1 << 20)));
}

}  // namespace

Scenario one_value_is_refused() {
  return scenario<Layer>({
      .name = "sync_batch_norm.one_value_is_refused",
      .claim = "SyncBatchNorm takes one value per channel on a rank, unless the whole group holds "
               "no other.",
      .in_full =
          "SyncBatchNorm takes any input with a channel axis, also one value per channel on a "
          "rank, unless the whole group holds one, or the output of one rank requires no "
          "gradient while the input of another does: then every rank throws the same sentence.",
      .exactness = "within rounding",
      .source = "torch.nn.SyncBatchNorm, whose input is (N, C, +) and which refuses one value in a "
                "world of one; docs/semantics.md 3",
      .not_covered = "inputs of other channels or dtypes than the layer's",
      .usual_mistake = "taking it for a layer of images, or requiring two values on each rank.",
      .tags = {"sync_batch_norm"},
      .must_catch = {"one_value_names_rank_zero", "sync_batch_norm_empty_rank_needs_no_backward",
                     "sync_batch_norm_for_images_only", "sync_batch_norm_one_value_accepted"},
      .draws = 50,
      .start = {.world = {.size = 2}},
      .every = every_shape,
      .cases = layers(),
      .program = program,
      .checks = {what_cannot_be_trained_is_refused_and_no_more, the_rank_with_the_value_is_named,
                 the_rest_is_normalised},
      .labels = {{"three ranks and more", 0.2, has_three_ranks<Layer>},
                 {"a rank without a backward", 0.05, lacks_a_backward}},
      .unused = {"steps", "gradient_layout", "half_parameters", "threads"},
  });
}

}  // namespace lockstep::scenarios::sync_batch_norm_one_value_is_refused
