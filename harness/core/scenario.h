// A scenario: one falsifiable claim, the cases that could break it, the program every rank runs,
// and the checks that judge what the ranks recorded. Clients record, checkers judge.
#pragma once

#include "harness/core/verdict.h"

#include <functional>

namespace lockstep {

class RankContext;  // harness/recorder/rank_context.h; the only part of a scenario that has torch

// Thrown by a check that cannot certify its own reference ("no exact reference for this case"): the
// verdict is `refused`, counted and printed, never a pass.
struct Refused : std::runtime_error {
  using runtime_error::runtime_error;
};

// Type-erased: the form that the engine and the command line use.
struct Scenario {
  std::string name;         // "family.proposition"
  std::string claim;        // one falsifiable sentence
  std::string exactness;    // the meaning of a pass, in two or three words: "bit-equal"
  std::string source;       // where the rule comes from
  std::string not_covered;  // what it does not see
  std::string usual_mistake;
  std::vector<std::string> tags;
  std::vector<std::string> must_catch;  // mutants, by name

  // Default number of drawn cases, and the cases always tried (may be empty).
  int draws = 100;
  std::function<std::vector<Case>()> every;
  std::function<Case(uint64_t seed, int size)> draw;

  // The case `value` describes with every field written out. Throws FieldError.
  std::function<Case(const Json& value)> parse;
  std::function<std::vector<Case>(const Case&)> smaller;
  std::function<Case()> smallest;
  std::vector<Leaf> leaves;  // of its cases

  std::function<void(const Case&, RankContext&)> program;
  std::function<Findings(const Case&, const History&)> checks;
  bool judges_endings = false;  // the checks judge how ranks end
};

// The fields that a scenario file sets.
template <CaseType C>
struct Spec {
  std::string name, claim, exactness, source, not_covered, usual_mistake;
  std::vector<std::string> tags, must_catch;
  int draws = 100;
  C start = {};  // the smallest case worth running; drawing and --set start here
  std::vector<C> (*every)() = nullptr;
  rc::Gen<C> cases;
  void (*program)(const C&, RankContext&);
  std::vector<Findings (*)(const C&, const History&)> checks;  // pointers: nothing captured
  bool judges_endings = false;
};

template <CaseType C>
Scenario scenario(Spec<C> spec);

// Pure. Endings first (crash before hang before leak), unless the checks judge them; then vacuity,
// then the checks. A check that throws makes the case inconclusive, never a pass.
Verdict judge(const Scenario& scenario, const Case& c, const History& history);

}  // namespace lockstep

#include "harness/core/scenario_inl.h"
