#include "scenarios/sync_batch_norm/converted_refusals.h"

#include "scenarios/cases/sentences.h"
#include "scenarios/cases/waits.h"

#include <torch/torch.h>

#include <algorithm>

namespace lockstep::scenarios::sync_batch_norm {

namespace {

constexpr const char *kRefusal = "refusal", *kLateForward = "after the late rank";
constexpr int64_t kConvertedMs = 400;

// The part of the sentence that says what the layer takes. One that trains over all ranks has the
// same sentence on each; the others throw LibTorch's.
std::string words_of(const Place& place, bool is_over_ranks) {
  const auto axes = std::to_string(place.axes + 2);
  if (is_over_ranks) return place.axes == 1 ? "with 2 to 3 axes" : "with " + axes + " axes";
  const auto taken = place.axes == 1 ? "2D or 3D" : axes + "D";
  return "expected " + taken + " input (got " + std::to_string(place.axes + 3) + "D input)";
}

Findings refusal(const Place& place, bool is_over_ranks, const Row& row) {
  constexpr const char* kRule =
      "A layer must refuse an input with an axis too many, and say how many it takes";
  const auto words = words_of(place, is_over_ranks);
  for (int rank = 0; rank < static_cast<int>(row.by_rank.size()); ++rank) {
    const auto sentence = sentence_in(row, rank);
    const auto who = "rank " + std::to_string(rank) + ", " + row.name + ": ";
    if (sentence.empty())
      return {{kRule, "not_refused", {row.at, row.name}, who + "no error, expected one"}};
    if (is_in_our_words(row) && sentence.find(words) == std::string::npos)
      return {{kRule,
               "another_error",
               {row.at, row.name},
               who + "'" + sentence + "', expected '" + words + "'"}};
  }
  return is_over_ranks ? all_received_one_sentence(row) : Findings();
}

}  // namespace

bool has_a_misfit(const Converted& c) {
  const auto layers = layers_of(c);
  return std::ranges::count(c.acts, ConvertedAct::misfit) > 0 &&
         std::ranges::any_of(layers, [](const Place& each) { return each.own; });
}

void record_misfits(const Converted& c, RankContext& here, const NormLayers& norms,
                    const ModulePtr& root) {
  const auto layers = layers_of(c);
  const auto modules = called(c, root);
  for (size_t i = 0; i < layers.size(); ++i) {
    if (!layers[i].own) continue;
    const auto input = batch_of(c, layers[i], here.rank(), layers[i].axes + 1);
    record_sentence(here, name_of_layer(i, kRefusal).c_str(),
                    error_of([&] { norms.forward(*modules[i], input); }));
  }
}

Findings misfits_are_refused(const Converted& c, const History& h) {
  auto layers = layers_of(c);
  bool is_converted = false;
  for (size_t act = 0; act < c.acts.size(); ++act) {
    const auto what = c.acts[act];
    if (what == ConvertedAct::convert || what == ConvertedAct::revert)
      is_converted = what == ConvertedAct::convert;
    if (what == ConvertedAct::turn)
      for (auto& each : layers) each.evaluates = !each.evaluates;
    for (size_t i = 0; what == ConvertedAct::misfit && i < layers.size(); ++i) {
      if (!layers[i].own) continue;
      auto findings =
          refusal(layers[i], is_converted && !layers[i].evaluates,
                  h.row({static_cast<int>(act) + 1, word_of(what)}, name_of_layer(i, kRefusal)));
      if (!findings.empty()) return findings;
    }
  }
  return {};
}

void wait_for_the_late_rank(const Converted& c, RankContext& here, const NormLayers& norms,
                            const ModulePtr& root) {
  const auto converted = norms.convert(root, here.group(), kConvertedMs);
  const auto layer = called(c, converted).front();
  layer->train();
  const auto place = layers_of(c).front();
  here.enter(static_cast<int>(c.acts.size()) + 1, kLateForward);
  const auto forward = [&](const auto& wait) {
    wait();
    norms.forward(*layer, batch_of(c, place, here.rank(), place.axes));
  };
  record_wait_for(late_rank(c), kConvertedMs, forward, here);
}

Findings layers_wait_as_long_as_converted(const Converted& c, const History& h) {
  if (late_rank(c) < 0) return {};
  return gave_up_in_time("A layer must wait for a late rank as long as its conversion says",
                         {static_cast<int>(c.acts.size()) + 1, kLateForward}, h);
}

}  // namespace lockstep::scenarios::sync_batch_norm
