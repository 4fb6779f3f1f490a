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

bool all_left_out_one_forward(const std::vector<PassReport>& reports) {
  std::optional<std::string> first;
  for (const auto& [number, error] : reports) {
    if (number != reports.front().number) return false;
    if (error == kNoInputs) continue;
    if (!error.ends_with(kLeftOut) || error != first.value_or(error)) return false;
    first = error;
  }
  return true;
}

std::string forwards_text(std::int64_t count) {
  return std::to_string(count) + " synchronised forward" + (count == 1 ? "" : "s");
}

std::string unfinished_sentence(const std::vector<PassReport>& reports,
                                const ReducerOptions& options) {
  const bool only_numbers_differ = std::all_of(
      reports.begin(), reports.end(),
      [](const PassReport& each) { return each.error.empty() || each.error == kNoInputs; });
  const auto state_of = [&](const PassReport& report) {
    if (!report.error.empty()) return report.error;
    if (!only_numbers_differ) return std::string("all is well");
    return "its pass comes after " + forwards_text(report.number);
  };
  std::string sentence =
      "a backward pass could not be averaged on all ranks, so each keeps its local gradients: ";
  if (options.bucket.gradients_are_views) {
    sentence =
        "a backward pass could not be averaged on all ranks, and what gradients hold is of no use "
        "(gradient_as_bucket_view): ";
  }
  for (std::size_t rank = 0; rank < reports.size(); ++rank) {
    if (rank > 0) sentence += "; ";
    sentence += "rank " + std::to_string(rank) + ": " + state_of(reports[rank]);
  }
  const bool lacks = std::any_of(reports.begin(), reports.end(), [](const PassReport& each) {
    return each.error.starts_with(kLacks);
  });
  if (only_numbers_differ) {
    sentence +=
        ". Ranks make the same synchronised forwards and backward passes, in one order: one of "
        "them "
        "left out a backward pass, or made a forward more";
  } else if (lacks && options.static_graph) {
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
