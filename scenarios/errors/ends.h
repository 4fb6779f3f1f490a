// The error that a rank receives in a step of an Erring case, by docs/semantics.md 1.4, 2.7
// and 2.8.
#pragma once

#include "scenarios/errors/case.h"

namespace lockstep::scenarios::errors {

// The end of a rank's step.
struct ExpectedError {
  //   nothing     it returns
  //   own         it throws what this rank did wrong, with all of `words`
  //   unfinished  a pass that could not be averaged, with `states`
  //   peers       an error of communication that has one of `words` and names an operation
  //   perhaps     it returns, or ends with such an error
  //   reported    it throws what this rank did wrong, or what a peer reported: one of `words`
  enum class Kind { nothing, own, unfinished, peers, perhaps, reported };
  Kind kind = Kind::nothing;
  std::vector<std::string> words;
  std::string instead = {};              // of peers: their error may have this, and no more
  std::vector<std::string> states = {};  // of each rank: how the sentence about it begins
};

inline constexpr const char* kAllIsWell = "all is well";

// The words in the error of a rank that makes the mistake.
std::string own_word(const Erring& c, int rank);

// How the sentence about a rank begins whose pass has another number than its peers'.
std::string state_of_its_number(const Erring& c, int step, int rank);

// This rank's error in the step of a mistake after which all begin anew.
ExpectedError error_at_the_end(const Erring& c, int step, int rank);

// Its error once it looks, where peers' flags are read after the pass. `states`: what each
// rank reports of its pass, empty where all is well. A rank whose pass went wrong raises its own
// error; where several went wrong, it may see another's before its own is complete.
ExpectedError late_error(const Erring& c, int rank, const std::vector<std::string>& states,
                         bool rank_has_thrown);

// The same where the passes of the ranks have different numbers.
ExpectedError error_of_a_late_number(const Erring& c, int step, int rank);

// The error of a rank in a step of which ranks are out of step: in the last one, their peers wait
// in vain for those that left out one.
ExpectedError error_out_of_step(const Erring& c, int step, int rank);

}  // namespace lockstep::scenarios::errors
