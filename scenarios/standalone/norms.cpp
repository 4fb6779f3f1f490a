// Cases of SyncBatchNorm in words.
#include "scenarios/cases/layer.h"
#include "scenarios/standalone/family.h"
#include "scenarios/standalone/phrases.h"
#include "scenarios/sync_batch_norm/converted.h"

namespace lockstep::scenarios::standalone {

namespace {

std::string samples_text(const Layer& c) {
  std::vector<std::string> out;
  for (int rank = 0; rank < c.world.size && out.size() < 4; ++rank)
    out.push_back(std::to_string(
        c.samples.empty() ? 2 : c.samples[static_cast<size_t>(rank) % c.samples.size()]));
  if (c.world.size > 4) out.emplace_back("...");
  return "batches of " + joined(out, ", ") +
         (out == std::vector<std::string>{"1"} ? " sample" : " samples by rank");
}

std::string layer_text(const Layer& c) {
  return "a SyncBatchNorm of " + counted(c.norm.channels, "channel");
}

std::string layer_in_words(const Layer& c) {
  return steps_in_words(c.steps) + " of " + layer_text(c) + " on " + samples_text(c);
}

std::string split_in_words(const Layer& c) {
  return layer_in_words(c) + ", then on the same samples split in other ways";
}

std::string second_derivative_in_words(const Layer& c) {
  return layer_in_words(c) + "; the first backward has create_graph=True";
}

std::string evaluated_in_words(const Layer& c) {
  return "evaluates " + layer_text(c) + " on " + samples_text(c) + ", " + counted(c.steps, "time");
}

std::string weighted_in_words(const Layer& c) {
  return layer_in_words(c) +
         " under DDP, with losses weighted by W n_r / N and without the weights";
}

std::string conversions_in_words(const sync_batch_norm::Converted& c) {
  using enum sync_batch_norm::ConvertedAct;
  const std::map<sync_batch_norm::ConvertedAct, std::string> acts{
      {convert, "converts to SyncBatchNorm"},
      {revert, "converts back"},
      {train, "a training step"},
      {copy, "goes on with a copy"},
      {turn, "switches between training and evaluation"},
      {misfit, "a forward with an axis too many"}};
  return "a model with " + counted(std::max<size_t>(1, c.layers.size()), "BatchNorm layer") + ": " +
         in_order(each_in(c.acts, acts)) + late_rank_in_words(c.late, c.world.size);
}

}  // namespace

Families norms() {
  return {said("sync_batch_norm.matches_single_process", layer_in_words),
          said("sync_batch_norm.split_does_not_matter", split_in_words),
          said("sync_batch_norm.one_value_is_refused", layer_in_words),
          said("sync_batch_norm.second_derivative_is_refused", second_derivative_in_words),
          said("sync_batch_norm.evaluation_is_local", evaluated_in_words),
          said("sync_batch_norm.gradients_want_weights", weighted_in_words),
          said("sync_batch_norm.conversion_keeps_the_model", conversions_in_words)};
}

}  // namespace lockstep::scenarios::standalone
