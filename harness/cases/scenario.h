// A scenario: one falsifiable claim, the cases that could break it, the program every rank runs,
// and the checks that judge what the ranks recorded. Clients record, checkers judge.
#pragma once

#include "harness/verdict/verdict.h"

#include <rapidcheck.h>

#include <functional>

namespace lockstep {

class RankContext;  // harness/rank/rank_context.h; the only part of a scenario that has torch

// Thrown by a check that cannot certify its own reference ("no exact reference for this case"): the
// verdict is `refused`, counted and printed, never a pass. A property of the case alone belongs
// into the precondition of its scenario.
struct Refused : std::runtime_error {
  using runtime_error::runtime_error;
};

// A kind of case, and the least share of a scenario's drawn cases that must be of it, from 0 to 1:
// a run that hardly met the hard cases proves little.
struct RequiredShare {
  std::string label;
  double share = 0;
  bool operator==(const RequiredShare&) const = default;
};

// Type-erased: the form that campaigns and the command line use.
struct Scenario {
  std::string name;         // "family.proposition"
  std::string former_name;  // of version 0.1: archived cases have it, and draws begin with it
  std::string claim;        // one short falsifiable sentence
  std::string in_full;      // the claim with all that is judged; empty: the short one says it
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
  std::function<std::vector<Case>(const Case&)> smaller;  // outside the precondition as well
  std::function<Case()> smallest;
  std::vector<Leaf> leaves;         // of its cases, without those beneath `unused`
  std::vector<std::string> unused;  // fields of its shape for which `parse` takes the default alone

  // Why the claim is not about this case, which then is not run; empty: it is.
  std::function<std::string(const Case&)> unmet_precondition = [](const Case&) {
    return std::string();
  };

  std::vector<RequiredShare> required_shares;   // at most 64
  std::function<uint64_t(const Case&)> labels;  // bit i: the case has the label of share i

  std::function<void(const Case&, RankContext&)> program;
  std::function<Findings(const Case&, const History&)> checks;
  bool judges_endings = false;  // the checks judge how ranks end
  // The checks judge each step from what the ranks held before it, so that a finding is no
  // consequence of one before.
  bool judges_each_step = false;
  // The usual cause of a finding of this pattern, where the case shows it; empty: nothing is known.
  std::function<std::string(const Case&, std::string_view pattern)> cause =
      [](const Case&, std::string_view) { return std::string(); };
};

// True for its name and for its former one.
inline bool is_named(const Scenario& scenario, std::string_view name) {
  return name == scenario.name || (!scenario.former_name.empty() && name == scenario.former_name);
}

template <CaseType C>
struct Label {
  std::string name;  // "ranks with unequal batches"
  double share = 0;  // the least among drawn cases
  bool (*holds)(const C&);
};

// The fields that a scenario file sets.
template <CaseType C>
struct Spec {
  std::string name, former_name = {}, claim, in_full = {}, exactness, source, not_covered,
                    usual_mistake;
  std::vector<std::string> tags, must_catch;
  int draws = 100;
  C start = {};  // the smallest case worth running; drawing and --set start here
  std::vector<C> (*every)() = nullptr;
  rc::Gen<C> cases;
  // Empty where the claim is about the case, else a sentence that says why not. Every drawn case
  // meets it, and the preconditions of its structs (base/fields.h).
  std::string (*precondition)(const C&) = nullptr;
  void (*program)(const C&, RankContext&);
  std::vector<Findings (*)(const C&, const History&)> checks;  // pointers: nothing captured
  bool judges_endings = false, judges_each_step = false;
  // The usual cause of a finding of this pattern, where the case shows it: an option, a step.
  std::string (*cause)(const C&, std::string_view pattern) = nullptr;
  std::vector<Label<C>> labels = {};
  // The fields of the shape that neither the program nor the checks look at.
  std::vector<std::string> unused = {};
};

template <CaseType C>
Scenario scenario(Spec<C> spec);

// True if `path` is one of these fields, or beneath one: "groups", "network.hidden[1]".
bool is_among(const std::vector<std::string>& fields, std::string_view path);

// Replaces these fields of `value` by those of `defaults`; throws FieldError, naming the first one
// that is not the same there.
Json with_defaults(const std::vector<std::string>& unused, Json value, const Json& defaults);
void require_defaults(const std::vector<std::string>& unused, const Json& value,
                      const Json& defaults, const std::string& scenario);

// The verdict of a case that does not meet the precondition of its scenario; none: it does.
std::optional<Verdict> refusal_of(const Scenario& scenario, const Case& c);

// Pure. The precondition first; then endings (crash before hang before leak), unless the checks
// judge them; then vacuity, then the checks. A check that throws makes the case inconclusive, never
// a pass.
Verdict judge(const Scenario& scenario, const Case& c, const History& history);

}  // namespace lockstep

#include "harness/cases/scenario_inl.h"
