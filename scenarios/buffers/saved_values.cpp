// Several forwards before one backward work, whatever buffers the broadcast writes in between; only
// a rank on which it changed what an evaluation forward has saved receives an error, in that
// backward.
//
// A forward in training normalises by its batch, so that nothing in its graph depends on running
// statistics, and the broadcast before the next forward may write them. One in evaluation
// normalises by them: its graph holds the very tensors. If their write were hidden, its backward
// would compute with other values than its forward, and nobody would know. So each graph is kept to
// the end or dropped at once, and one backward runs through all that are kept.
//
// Why the check suffices: a rank records its buffers before a forward and in it, so its own records
// say whether the broadcast changed their bits there. An InstanceNorm saves copies in evaluation.
// The other ranks' backward then fails as well, if a synchronised forward is in it, and says which
// rank's did; the next step goes well.
#include "harness/cases/generators.h"
#include "harness/cases/scenario.h"
#include "harness/rank/rank_context.h"
#include "harness/verdict/compare.h"
#include "harness/worlds/subject.h"
#include "scenarios/buffers/experiment.h"
#include "scenarios/buffers/saved.h"
#include "scenarios/cases/labels.h"
#include "scenarios/cases/network.h"
#include "scenarios/cases/sentences.h"
#include "scenarios/cases/tensors.h"

#include <torch/torch.h>

#include <algorithm>

namespace lockstep::scenarios::buffers_saved_values {
namespace {

constexpr int64_t kChannels = 2, kSamples = 3, kSide = 2;
constexpr const char *kBefore = "before forward", *kIn = "in forward", *kEnd = "after backward",
                     *kSentence = "sentence", *kNext = "after the next backward";

// Ranks wait for each other in a backward through what a synchronised forward made.
bool is_reduced(const Saved& c) {
  const auto all = forwards_of(c);
  for (size_t f = 0; f < all.size(); ++f)
    if (is_kept(c, f) && !is_local(all[f])) return true;
  return false;
}

struct Layer {
  std::shared_ptr<torch::nn::Module> module;
  std::function<at::Tensor(const at::Tensor&)> forward;
};

template <class Norm>
Layer layer_of(Norm norm) {
  return {norm.ptr(), [norm](const at::Tensor& input) mutable { return norm->forward(input); }};
}

Layer made_layer(const Saved& c, RankContext& here) {
  using namespace torch::nn;
  const BatchNormOptions batch(kChannels);
  const auto instance = InstanceNormOptions(kChannels).affine(true).track_running_stats(true);
  if (c.norm == NormKind::own) {
    const auto& layers = norm_layers(here);
    const auto module = layers.layer(c.axes, batch);
    return {module, [module, forward = layers.forward](const at::Tensor& input) {
              return forward(*module, input);
            }};
  }
  const bool is_batch = c.norm == NormKind::batch;
  if (c.axes == 1)
    return is_batch ? layer_of(BatchNorm1d(batch)) : layer_of(InstanceNorm1d(instance));
  if (c.axes == 2)
    return is_batch ? layer_of(BatchNorm2d(batch)) : layer_of(InstanceNorm2d(instance));
  return is_batch ? layer_of(BatchNorm3d(batch)) : layer_of(InstanceNorm3d(instance));
}

at::Tensor drawn(const Saved& c, Stream stream, int rank, size_t forward) {
  std::vector<int64_t> shape{kSamples, kChannels};
  shape.resize(static_cast<size_t>(2 + c.axes), kSide);
  return real_numbers({.seed = c.seed,
                       .stream = stream,
                       .rank = static_cast<uint64_t>(rank),
                       .step = forward},
                      shape)
      .to(at::kFloat);
}

class Normed : public buffers::Watched {
 public:
  explicit Normed(Layer layer) : layer_(std::move(layer)) {
    scale_ = register_parameter("scale", torch::ones({kChannels}));
    register_module("norm", layer_.module);
  }
  at::Tensor forward(const at::Tensor& input) override {
    if (on_entry) on_entry();
    std::vector<int64_t> shape(static_cast<size_t>(input.dim()), 1);
    shape[1] = kChannels;
    return layer_.forward(input * scale_.view(shape));
  }

 private:
  const Layer layer_;
  at::Tensor scale_;
};

void program(const Saved& c, RankContext& here) {
  if (!here.device().is_cpu())
    throw Unsupported("on a device buffers are written whether their bits differ or not");
  const auto model = std::make_shared<Normed>(made_layer(c, here));
  const auto replica = wrap(here, model, {.broadcast_buffers = true});
  const auto kinds = forwards_of(c);
  auto sum = torch::zeros({});
  for (size_t f = 0; f < kinds.size(); ++f) {
    const auto look = [&](const char* phase) {
      here.enter(static_cast<int>(f), phase);
      record_buffers(here, *model);
    };
    model->train(!evaluates(kinds[f]));
    look(kBefore);
    model->on_entry = [&] { look(kIn); };
    const auto forward = [&] {
      const auto output = replica->forward(drawn(c, Stream::input, here.rank(), f));
      if (is_kept(c, f)) sum = sum + (output * drawn(c, Stream::cotangent, here.rank(), f)).sum();
    };
    is_local(kinds[f]) ? replica->no_sync(forward) : forward();
  }
  model->on_entry = nullptr;
  const auto end = static_cast<int>(kinds.size());
  const auto backward = [&](const char* phase, const at::Tensor& loss) {
    const auto sentence = error_of([&] { replica->backward(loss); });
    here.enter(end, phase);
    record_sentence(here, kSentence, sentence);
  };
  backward(kEnd, sum);
  model->zero_grad();
  model->train();
  backward(kNext, replica->forward(drawn(c, Stream::input, here.rank(), kinds.size())).sum());
}

// True if the broadcast before some forward changed what an evaluation forward before it has saved.
bool has_changed(const Saved& c, const History& h, int rank) {
  if (c.norm == NormKind::instance) return false;
  const auto kinds = forwards_of(c);
  bool is_saved = false;
  for (size_t f = 0; f < kinds.size(); ++f) {
    for (const char* name : {"norm.running_mean", "norm.running_var"}) {
      const auto held = [&](const char* phase) {
        return h.row({static_cast<int>(f), phase}, name).by_rank[static_cast<size_t>(rank)];
      };
      if (is_saved && held(kBefore) != held(kIn)) return true;
    }
    is_saved = is_saved || (evaluates(kinds[f]) && is_kept(c, f));
  }
  return false;
}

Findings only_changed_values_are_reported(const Saved& c, const History& h) {
  const auto end = static_cast<int>(forwards_of(c).size());
  std::vector<bool> changed;
  for (int rank = 0; rank < c.world.size; ++rank) changed.push_back(has_changed(c, h, rank));
  const bool is_any = is_reduced(c) && std::ranges::count(changed, true) > 0;
  const bool words_count = is_in_our_words(h.row({end, kEnd}, kSentence));
  for (int rank = 0; rank < c.world.size; ++rank) {
    const std::string expected = changed[static_cast<size_t>(rank)]
                                     ? "modified by an inplace operation"
                                 : is_any ? "an exception was thrown in the backward pass"
                                          : "";
    const auto sentence = sentence_in(h.row({end, kEnd}, kSentence), rank);
    const bool is_right = expected.empty() || !words_count
                              ? sentence.empty() == expected.empty()
                              : sentence.find(expected) != std::string::npos;
    if (is_right) continue;
    const auto* const pattern = expected.empty()   ? "refused_what_it_could_do"
                                : sentence.empty() ? "computed_with_other_values"
                                                   : "another_error";
    return {{"A backward must throw where a value that its graph saved has changed, and only there",
             pattern, kEnd,
             "rank " + std::to_string(rank) + "'s backward " +
                 (expected.empty()   ? "threw, though no value that it reads has changed"
                  : sentence.empty() ? "threw nothing, expected '" + expected + "'"
                                     : "threw another error, expected '" + expected + "'") +
                 (sentence.empty() ? "" : ": '" + sentence + "'")}};
  }
  for (int rank = 0; rank < c.world.size; ++rank)
    if (const auto sentence = sentence_in(h.row({end, kNext}, kSentence), rank); !sentence.empty())
      return {{"The step after it must go well", "next_step_failed", kNext,
               "rank " + std::to_string(rank) + " received '" + sentence + "'"}};
  return {};
}

std::vector<Saved> every_small_one() {
  using enum Forward;
  const std::vector<std::vector<Forward>> lists{{train, train},
                                                {evaluate, train, train},
                                                {evaluate_and_drop, train, train},
                                                {train, evaluate, train, train},
                                                {evaluate_in_no_sync, train, train, train},
                                                {train_in_no_sync, train, train}};
  std::vector<Saved> all;
  for (const auto& forwards : lists)
    for (const auto norm : {NormKind::batch, NormKind::instance, NormKind::own})
      for (const int axes : {1, 2, 3})
        all.push_back({.world = {.size = 2}, .forwards = forwards, .norm = norm, .axes = axes});
  return all;
}

rc::Gen<Saved> cases() {
  using gen::set;
  using rc::gen::element;
  using rc::gen::inRange;
  const auto forwards = gen::lists(
      1, 7,
      element(Forward::train, Forward::evaluate, Forward::evaluate, Forward::train_and_drop,
              Forward::evaluate_and_drop, Forward::train_in_no_sync, Forward::evaluate_in_no_sync));
  return gen::build<Saved>(
      set(&Saved::world, gen::build<WorldSpec>(set(&WorldSpec::size, inRange(2, 5)))),
      set(&Saved::forwards, forwards),
      set(&Saved::norm, element(NormKind::batch, NormKind::instance, NormKind::own, NormKind::own)),
      set(&Saved::axes, inRange(1, 4)), set(&Saved::seed, inRange<uint64_t>(0, 1 << 20)));
}

// True if a broadcast precedes one of the forwards behind the evaluation.
bool is_kept_over_a_broadcast(const Saved& c, Forward evaluation) {
  const auto kinds = forwards_of(c);
  const auto last = kinds.end() - 1, kept = std::find(kinds.begin(), last, evaluation);
  return kept != last && std::any_of(kept + 1, last, std::not_fn(is_local));
}

}  // namespace

Scenario saved_values() {
  return scenario<Saved>({
      .name = "buffers.saved_values_do_not_change_unseen",
      .claim = "Several forwards before one backward work, for every kind of BatchNorm and "
               "InstanceNorm.",
      .in_full =
          "Several forwards before one backward work, for every kind of BatchNorm and "
          "InstanceNorm; a rank throws in it only where the broadcast of buffers has changed "
          "statistics that the graph of an evaluation forward reads, and there it does.",
      .exactness = "same sentence",
      .source = "docs/semantics.md 0.4, 1.3; pytorch/pytorch#22095",
      .not_covered = "buffers that forward multiplies with; gradients' values",
      .usual_mistake = "hiding the broadcast's write from autograd, or hiding it never.",
      .tags = {"buffers"},
      .must_catch = {"batch_norm_of_images_forgotten", "evaluation_graph_forgotten",
                     "local_evaluation_graph_forgotten", "read_buffers_change_unseen"},
      .draws = 60,
      .start = {.world = {.size = 2}},
      .every = every_small_one,
      .cases = cases(),
      .program = program,
      .checks = {only_changed_values_are_reported},
      .labels = {{"three ranks and more", 0.3, has_three_ranks<Saved>},
                 {"an evaluation whose graph is kept over two forwards", 0.12,
                  [](const Saved& c) { return is_kept_over_a_broadcast(c, Forward::evaluate); }},
                 {"an evaluation inside no_sync, kept likewise", 0.08,
                  [](const Saved& c) {
                    return is_kept_over_a_broadcast(c, Forward::evaluate_in_no_sync);
                  }},
                 {"layers of the subject's own", 0.15,
                  [](const Saved& c) { return c.norm == NormKind::own; }}},
  });
}

}  // namespace lockstep::scenarios::buffers_saved_values
