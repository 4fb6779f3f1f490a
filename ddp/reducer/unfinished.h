#pragma once

#include "ddp/reducer/reducer_options.h"

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

// The sentences of a pass that could not be averaged; docs/semantics.md 2.7. Pure.

// One rank's report on its pass: the number of its step (PassFlag), and what is wrong, empty if
// nothing.
struct PassReport {
  std::int64_t number = 0;
  std::string error;
};

// An error begins with one of these, or is one of them.
inline constexpr const char* kLacks = "lacks ";
inline constexpr const char* kNoInputs = "has no inputs left";

// The state of a rank whose forward threw before the pass.
std::string left_out_forward(std::int64_t forward_number);

// By rank. True if the only error is that the same forward threw on all ranks that have inputs:
// they skipped it together.
bool all_left_out_one_forward(const std::vector<PassReport>& reports);

// The sentence that every rank raises. Where nothing is wrong but that steps have different
// numbers, it names these.
std::string unfinished_sentence(const std::vector<PassReport>& reports,
                                const ReducerOptions& options);

std::string forwards_text(std::int64_t count);  // "2 synchronised forwards"

}  // namespace lockstep
