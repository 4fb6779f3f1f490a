#pragma once

#include "ddp/reducer/reducer_options.h"

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

// The sentences of a pass that could not be averaged; docs/semantics.md 2.7. Pure.

// The report of a rank on its pass begins with one of these, or is one of them.
inline constexpr const char* kLacks = "lacks ";
inline constexpr const char* kNoInputs = "has no inputs left";

// That of a rank whose forward threw before the pass.
std::string left_out_forward(std::int64_t forward_number);

// By rank, empty where all is well. True if the only error is that the same forward threw on all
// ranks that have inputs: they skipped it together.
bool all_left_out_one_forward(const std::vector<std::string>& validation_errors);

// The sentence that every rank raises.
std::string unfinished_sentence(const std::vector<std::string>& validation_errors,
                                const ReducerOptions& options);

}  // namespace lockstep
