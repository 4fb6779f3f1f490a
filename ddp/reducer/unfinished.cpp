#include "ddp/reducer/unfinished.h"

#include <algorithm>
#include <optional>

namespace lockstep {

namespace {

constexpr const char* kLeftOut = " threw before this pass";

}  // namespace

std::string left_out_forward(std::int64_t forward_number) {
  return "its forward number " + std::to_string(forward_number) + kLeftOut;
}

bool all_left_out_one_forward(const std::vector<std::string>& validation_errors) {
  std::optional<std::string> first;
  for (const std::string& each : validation_errors) {
    if (each == kNoInputs) continue;
    if (!each.ends_with(kLeftOut) || each != first.value_or(each)) return false;
    first = each;
  }
  return true;
}

std::string unfinished_sentence(const std::vector<std::string>& validation_errors,
                                const ReducerOptions& options) {
  std::string sentence =
      "a backward pass could not be averaged on all ranks, so each keeps its local gradients: ";
  if (options.bucket.gradients_are_views) {
    sentence =
        "a backward pass could not be averaged on all ranks, and what gradients hold is of no use "
        "(gradient_as_bucket_view): ";
  }
  for (std::size_t rank = 0; rank < validation_errors.size(); ++rank) {
    if (rank > 0) sentence += "; ";
    sentence += "rank " + std::to_string(rank) + ": " +
                (validation_errors[rank].empty() ? "all is well" : validation_errors[rank]);
  }
  const bool lacks = std::any_of(validation_errors.begin(), validation_errors.end(),
                                 [](const std::string& each) { return each.starts_with(kLacks); });
  if (lacks && options.static_graph) {
    sentence += ". static_graph promises that every pass uses what the first one did";
  } else if (lacks) {
    sentence +=
        ". Every parameter that requires a gradient must take part in the loss on every rank, or "
        "find_unused_parameters be set. If a second backward() of the same forward was to bring "
        "the rest: add the losses, and call backward() once on the sum";
  }
  return sentence;
}

}  // namespace lockstep
