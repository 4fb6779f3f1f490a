// Answers for a user who has read an exception of PyTorch.
#pragma once

#include <span>
#include <string_view>

namespace lockstep::recorded {

// The words of an exception or of a question, separated by blanks and commas; and what they are
// about: an invariant, a pattern, a scenario or a page.
struct Symptom {
  std::string_view words, about, answer;
};
std::span<const Symptom> symptoms();

}  // namespace lockstep::recorded
