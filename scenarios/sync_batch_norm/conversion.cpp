// A conversion makes every BatchNorm layer of a model train over all ranks, wherever the model
// keeps it, and changes nothing else; reverting it makes them train alone again; and a copy has its
// own tensors.
//
// A case is a model of layers in containers and members, and acts: conversions, their reversals,
// training steps, changes of mode, and copies that are overwritten, trained and reverted. Each rank
// feeds numbers around one of its own, so that the running average says which ranks a batch was
// normalised over, and outputs what was added to the variance.
//
// Why the checks suffice: a layer that a conversion overlooks, or replaces where nobody calls it,
// moves towards its rank's own number. The parts that must stay are compared with those before the
// first act: names in their order, dtypes, shapes and requires_grad; modes are those set last.
#include "harness/cases/generators.h"
#include "harness/cases/scenario.h"
#include "harness/rank/rank_context.h"
#include "harness/rank/tensors.h"
#include "harness/verdict/compare.h"
#include "harness/worlds/subject.h"
#include "scenarios/cases/labels.h"
#include "scenarios/cases/tensors.h"
#include "scenarios/sync_batch_norm/converted.h"
#include "scenarios/sync_batch_norm/converted_refusals.h"

#include <torch/torch.h>

#include <algorithm>

namespace lockstep::scenarios::sync_batch_norm_conversion {
namespace {

using namespace sync_batch_norm;

constexpr const char *kAfter = "after", *kState = "state", *kModes = "modes", *kCopied = "copy's ";
constexpr int64_t kOverwritten = 8;
// Above all that rounds, and below what eight steps leave of a number.
constexpr double kRounding = 1e-4;

// Returns by layer the first number of each channel of its output.
std::vector<at::Tensor> train(const Converted& c, const NormLayers& norms, const ModulePtr& root,
                              int rank) {
  const auto layers = layers_of(c);
  const auto modules = called(c, root);
  std::vector<at::Tensor> out;
  for (size_t i = 0; i < layers.size(); ++i) {
    const auto input = batch_of(c, layers[i], rank, layers[i].axes);
    const auto output = norms.forward(*modules[i], input).detach();
    out.push_back(output[0].reshape({layers[i].channels, -1}).select(1, 0).contiguous());
  }
  return out;
}

// Records for each layer what it is in the model, and not in an object that nobody calls.
void record(const Converted& c, RankContext& here, const ModulePtr& root,
            const std::string& whose) {
  const auto state = state_of(root);
  here.record(whose + kState, std::vector<int64_t>(state.begin(), state.end()));
  const auto layers = called(c, root);
  std::vector<int64_t> modes;
  for (const auto& each : layers) modes.push_back(each->is_training() ? 1 : 0);
  here.record(whose + kModes, modes);
  for (size_t i = 0; i < layers.size(); ++i) {
    here.record(whose + name_of_layer(i, "weight"), layers[i]->named_parameters()["weight"]);
    if (layers_of(c)[i].tracks)
      here.record(whose + name_of_layer(i, "running mean"),
                  layers[i]->named_buffers()["running_mean"]);
  }
}

// A copy of the model, with other values in it, that trains like the model and is reverted.
ModulePtr overwritten_copy(const Converted& c, const NormLayers& norms, const ModulePtr& root,
                           bool is_converted, int rank) {
  auto copy = root->clone();
  {
    const torch::NoGradGuard no_grad;
    for (auto& each : copy->parameters()) each.fill_(kOverwritten);
    for (auto& each : copy->buffers()) each.fill_(kOverwritten);
  }
  train(c, norms, copy, rank);
  return is_converted ? norms.revert(copy) : copy;
}

void program(const Converted& c, RankContext& here) {
  const auto& norms = norm_layers(here);
  if (!here.device().is_cpu()) throw Unsupported("the layers of this scenario are on the CPU");
  auto root = built(c, norms);
  here.enter(0, kAfter);
  record(c, here, root, "");
  bool is_converted = false;
  for (size_t act = 0; act < c.acts.size(); ++act) {
    const auto what = c.acts[act];
    here.enter(static_cast<int>(act) + 1, word_of(what));
    ModulePtr copy;
    if (what == ConvertedAct::convert) root = norms.convert(root, here.group(), {});
    if (what == ConvertedAct::revert && is_converted) root = norms.revert(root);
    if (what == ConvertedAct::convert || what == ConvertedAct::revert)
      is_converted = what == ConvertedAct::convert;
    std::vector<at::Tensor> outputs;
    if (what == ConvertedAct::train) outputs = train(c, norms, root, here.rank());
    if (what == ConvertedAct::misfit) record_misfits(c, here, norms, root);
    if (what == ConvertedAct::turn)
      for (const auto& each : called(c, root)) each->train(!each->is_training());
    if (what == ConvertedAct::copy)
      copy = overwritten_copy(c, norms, root, is_converted, here.rank());
    here.enter(static_cast<int>(act) + 1, kAfter);
    record(c, here, root, "");
    for (size_t i = 0; i < outputs.size(); ++i) here.record(name_of_layer(i, "output"), outputs[i]);
    if (copy) record(c, here, copy, kCopied);
  }
  if (late_rank(c) >= 0) wait_for_the_late_rank(c, here, norms, root);
}

TensorValue filled(const Place& place, double value) {
  return recorded(torch::full({place.channels}, value, at::kDouble), scalar_type(place.dtype));
}

Findings a_conversion_changes_the_ranks_alone(const Converted& c, const History& h) {
  auto layers = layers_of(c);
  const auto size = static_cast<size_t>(c.world.size);
  std::vector<std::vector<double>> means(layers.size(), std::vector<double>(size, 0));
  std::vector<int64_t> batches(layers.size(), 0);
  bool is_converted = false;
  const auto built = h.row({0, kAfter}, kState).by_rank;
  for (size_t act = 0; act <= c.acts.size(); ++act) {
    const auto what = act == 0 ? std::nullopt : std::optional(c.acts[act - 1]);
    if (what == ConvertedAct::convert || what == ConvertedAct::revert)
      is_converted = what == ConvertedAct::convert;
    if (what == ConvertedAct::turn)
      for (auto& each : layers) each.evaluates = !each.evaluates;
    const Moment at{static_cast<int>(act), kAfter};
    std::vector<int64_t> modes;
    for (const auto& each : layers) modes.push_back(each.evaluates ? 0 : 1);
    if (auto findings = state_stays(h.row(at, kState), built); !findings.empty()) return findings;
    std::vector<Comparison> rows{{.row = h.row(at, kModes), .expected = {int64_values(modes)}}};
    for (size_t i = 0; i < layers.size(); ++i) {
      const auto& place = layers[i];
      const auto bound = value_of(torch::full({place.channels}, kRounding, at::kDouble));
      std::vector<TensorValue> expected, of_copy, outputs;
      for (size_t rank = 0; rank < size; ++rank) {
        const auto move = [&](double now, int64_t before) {
          return moved(c, place, now, before, is_converted, static_cast<int>(rank));
        };
        if (what == ConvertedAct::train) means[i][rank] = move(means[i][rank], batches[i]);
        expected.push_back(filled(place, means[i][rank]));
        of_copy.push_back(filled(place, move(kOverwritten, kOverwritten)));
        outputs.push_back(
            filled(place, normalised(c, place, is_converted, static_cast<int>(rank))));
      }
      batches[i] += what == ConvertedAct::train && !place.evaluates;
      if (what == ConvertedAct::train && !place.evaluates)
        rows.push_back(
            {.row = h.row(at, name_of_layer(i, "output")), .expected = outputs, .bounds = {bound}});
      rows.push_back(
          {.row = h.row(at, name_of_layer(i, "weight")), .expected = {filled(place, 1)}});
      if (place.tracks)
        rows.push_back({.row = h.row(at, name_of_layer(i, "running mean")),
                        .expected = expected,
                        .bounds = {bound}});
      if (what != ConvertedAct::copy) continue;
      rows.push_back(
          {.row = h.row(at, std::string(kCopied) + kModes), .expected = {int64_values(modes)}});
      rows.push_back({.row = h.row(at, kCopied + name_of_layer(i, "weight")),
                      .expected = {filled(place, kOverwritten)}});
      if (place.tracks)
        rows.push_back({.row = h.row(at, kCopied + name_of_layer(i, "running mean")),
                        .expected = of_copy,
                        .bounds = {bound}});
    }
    auto findings = equal(
        "A conversion must make each layer normalise over all ranks, its reversal over one, and "
        "neither may change anything else; a copy has its own tensors",
        rows);
    if (!findings.empty()) return findings;
  }
  return {};
}

const std::vector kTour{ConvertedAct::train, ConvertedAct::convert, ConvertedAct::train,
                        ConvertedAct::copy,  ConvertedAct::turn,    ConvertedAct::revert,
                        ConvertedAct::train, ConvertedAct::misfit};

std::vector<Converted> every_small_one() {
  std::vector<Converted> all;
  for (const auto in : {Container::sequential, Container::list, Container::dict, Container::member})
    for (const bool own : {false, true})
      for (const int axes : {1, 2, 3})
        for (const auto frozen : {FrozenPart::none, FrozenPart::weight, FrozenPart::all})
          all.push_back({.world = {.size = 2},
                         .acts = kTour,
                         .layers = {{.in = in, .own = own, .axes = axes, .frozen = frozen},
                                    {.in = in, .own = own, .channels = 3, .evaluates = true}}});
  for (const bool own : {false, true})
    for (const int axes : {1, 2, 3})
      all.push_back({.world = {.size = 2},
                     .acts = {ConvertedAct::misfit, ConvertedAct::convert, ConvertedAct::misfit},
                     .layers = {{.in = Container::list, .own = own, .axes = axes}},
                     .late = 1});
  return all;
}

rc::Gen<Converted> cases() {
  using gen::set;
  using rc::gen::element;
  using rc::gen::inRange;
  const auto seldom = rc::gen::weightedElement<bool>({{4, false}, {1, true}});
  const auto place = gen::build<Place>(
      set(&Place::in,
          element(Container::sequential, Container::list, Container::dict, Container::member)),
      set(&Place::own), set(&Place::axes, inRange(1, 4)), set(&Place::channels, inRange(1, 6)),
      set(&Place::frozen,
          element(FrozenPart::none, FrozenPart::none, FrozenPart::weight, FrozenPart::all)),
      set(&Place::tracks, gen::map(seldom, [](bool off) { return !off; })),
      set(&Place::evaluates, seldom), set(&Place::eps_log2, element(-17, -17, 0, 3)),
      set(&Place::cumulative, seldom), set(&Place::dtype, element(Dtype::float32, Dtype::float64)));
  return gen::build<Converted>(
      set(&Converted::world, gen::build<WorldSpec>(set(&WorldSpec::size, inRange(2, 5)))),
      set(&Converted::acts,
          gen::lists(2, 8,
                     element(ConvertedAct::convert, ConvertedAct::convert, ConvertedAct::revert,
                             ConvertedAct::revert, ConvertedAct::turn, ConvertedAct::turn,
                             ConvertedAct::train, ConvertedAct::copy, ConvertedAct::misfit))),
      set(&Converted::layers, gen::lists(1, 4, place)),
      set(&Converted::late,
          rc::gen::weightedOneOf<int>({{7, rc::gen::just(-1)}, {1, inRange(0, 5)}})));
}

bool has(const Converted& c, bool (*is_it)(const Place&)) {
  const auto layers = layers_of(c);
  return std::any_of(layers.begin(), layers.end(), is_it);
}

}  // namespace

Scenario conversion() {
  return scenario<Converted>({
      .name = "sync_batch_norm.conversion_keeps_the_model",
      .claim = "A conversion makes every BatchNorm layer normalise over all ranks, and its "
               "reversal over one.",
      .in_full =
          "A conversion makes every BatchNorm layer of a model, in a Sequential, ModuleList, "
          "ModuleDict or member, normalise over all ranks, and its reversal over one; names, "
          "dtypes, requires_grad, modes and values stay, and a copy has its own tensors. A layer "
          "of the subject's refuses an input with an axis too many, and a converted one waits for "
          "a rank as long as the conversion says.",
      .exactness = "within rounding",
      .source = "docs/semantics.md 3.1; torch.nn.SyncBatchNorm.convert_sync_batchnorm",
      .not_covered = "layers that are refused, layers in two places, groups but the world's",
      .usual_mistake = "replacing a layer where it is registered, and not where it is called.",
      .tags = {"sync_batch_norm"},
      .must_catch = {"conversion_gives_a_momentum", "conversion_gives_eps_its_default",
                     "conversion_overlooks_dicts", "conversion_unfreezes",
                     "converted_layers_wait_as_long_as_their_group",
                     "converted_layers_take_any_axes", "layers_count_no_axes",
                     "reversal_brings_back_the_old_mode"},
      .draws = 60,
      .start = {.world = {.size = 2}, .acts = {ConvertedAct::convert, ConvertedAct::train}},
      .every = every_small_one,
      .cases = cases(),
      .program = program,
      .checks = {a_conversion_changes_the_ranks_alone, misfits_are_refused,
                 layers_wait_as_long_as_converted},
      .labels = {{"three ranks and more", 0.3, has_three_ranks<Converted>},
                 {"a layer whose eps shows", 0.4,
                  [](const Converted& c) {
                    return has(c, [](const Place& place) { return place.eps_log2 >= 0; });
                  }},
                 {"a layer without momentum", 0.2,
                  [](const Converted& c) {
                    return has(c, [](const Place& place) { return place.cumulative; });
                  }},
                 {"a layer in a dict", 0.2,
                  [](const Converted& c) {
                    return has(c, [](const Place& place) { return place.in == Container::dict; });
                  }},
                 {"a frozen layer", 0.2,
                  [](const Converted& c) {
                    return has(c,
                               [](const Place& place) { return place.frozen != FrozenPart::none; });
                  }},
                 {"a reversal after a change of mode", 0.05,
                  [](const Converted& c) {
                    const auto converts =
                        std::find(c.acts.begin(), c.acts.end(), ConvertedAct::convert);
                    const auto turns = std::find(converts, c.acts.end(), ConvertedAct::turn);
                    return std::find(turns, c.acts.end(), ConvertedAct::revert) != c.acts.end();
                  }},
                 {"an input with an axis too many", 0.1, has_a_misfit},
                 {"a rank that its peers do not wait for", 0.02,
                  [](const Converted& c) { return late_rank(c) >= 0; }},
                 {"a copy", 0.15,
                  [](const Converted& c) {
                    return std::ranges::count(c.acts, ConvertedAct::copy) > 0;
                  }}},
  });
}

}  // namespace lockstep::scenarios::sync_batch_norm_conversion
