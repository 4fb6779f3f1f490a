// Cases of SyncBatchNorm in words.
#include "scenarios/standalone/family.h"
#include "scenarios/standalone/phrases.h"

#include <algorithm>

namespace lockstep::scenarios::standalone {

namespace {

std::string samples_text(const Json& value) {
  const auto& samples = value.at("samples");
  std::vector<std::string> out;
  for (int64_t rank = 0; rank < number(value.at("world"), "size") && out.size() < 4; ++rank)
    out.push_back(std::to_string(
        samples.empty() ? 2
                        : samples.at(static_cast<size_t>(rank) % samples.size()).get<int64_t>()));
  if (number(value.at("world"), "size") > 4) out.emplace_back("...");
  return "batches of " + joined(out, ", ") +
         (out == std::vector<std::string>{"1"} ? " sample" : " samples by rank");
}

std::string layer_text(const Json& value) {
  return "a SyncBatchNorm of " + counted(number(value.at("norm"), "channels"), "channel");
}

std::string layer_in_words(const Json& value) {
  return steps_text(value) + " of " + layer_text(value) + " on " + samples_text(value);
}

std::string split_in_words(const Json& value) {
  return layer_in_words(value) + ", then on the same samples split in other ways";
}

std::string second_derivative_in_words(const Json& value) {
  return layer_in_words(value) + "; the first backward has create_graph=True";
}

std::string evaluated_in_words(const Json& value) {
  return "evaluates " + layer_text(value) + " on " + samples_text(value) + ", " +
         counted(number(value, "steps"), "time");
}

std::string weighted_in_words(const Json& value) {
  return layer_in_words(value) +
         " under DDP, with losses weighted by W n_r / N and without the weights";
}

std::string conversions_in_words(const Json& value) {
  const Words words{{"convert", "converts to SyncBatchNorm"},
                    {"revert", "converts back"},
                    {"train", "a training step"},
                    {"copy", "goes on with a copy"},
                    {"turn", "switches between training and evaluation"},
                    {"misfit", "a forward with an axis too many"}};
  return "a model with " +
         counted(std::max<int64_t>(1, static_cast<int64_t>(value.at("layers").size())),
                 "BatchNorm layer") +
         ": " + in_order(each_in(value.at("acts"), words)) + late_rank_in_words(value, "late");
}

}  // namespace

Families norms() {
  return {{"sync_batch_norm.matches_single_process", nullptr, layer_in_words},
          {"sync_batch_norm.split_does_not_matter", nullptr, split_in_words},
          {"sync_batch_norm.one_value_is_refused", nullptr, layer_in_words},
          {"sync_batch_norm.second_derivative_is_refused", nullptr, second_derivative_in_words},
          {"sync_batch_norm.evaluation_is_local", nullptr, evaluated_in_words},
          {"sync_batch_norm.gradients_want_weights", nullptr, weighted_in_words},
          {"sync_batch_norm.conversion_keeps_the_model", nullptr, conversions_in_words}};
}

}  // namespace lockstep::scenarios::standalone
