// Answers for a user who has read a finding of `judge`, or an exception of PyTorch.
#pragma once

#include <span>
#include <string_view>

namespace lockstep::recorded {

struct InvariantExplanation {
  std::string_view name;      // of the invariant
  std::string_view compared;  // what is looked at
  std::string_view mistake;   // a usual one that it catches
  std::string_view cure;
  std::string_view not_seen;  // what it cannot say; empty where nothing is worth a word
};
std::span<const InvariantExplanation> invariant_explanations();

// The words of an exception or of a question, separated by blanks and commas; and what they are
// about: an invariant, a pattern, a scenario or a page.
struct Symptom {
  std::string_view words, about, answer;
};
std::span<const Symptom> symptoms();

}  // namespace lockstep::recorded
