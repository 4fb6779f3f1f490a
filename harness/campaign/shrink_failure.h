// Shrinking one failure of a campaign: in which worlds candidates run, which of them still show the
// failure, and what is kept of the smallest one.
//
// A candidate shows the failure if it breaks the same rule with the same pattern or one that
// explains more (verdict/verdict.h). Where it explains more, later candidates must too: so a search
// never goes back to a vaguer one. One that explains more must do so with other seeds as well,
// where cases have a seed.
//
// Candidates run in the cheapest of the given settings in which the case that was found shows its
// failure. A smallest case of another setting than the one in which the failure was found is
// confirmed there; if it does not fail, the last step that does is the start of a search there.
//
// A flaky case is measured first: it runs kFlakyRuns times, of which it fails f. A candidate is
// kept once it has failed max(1, f / 2) times, rounded up, of at most kFlakyRuns.
#pragma once

#include "harness/campaign/evidence.h"
#include "harness/cases/result.h"
#include "harness/cases/shrink.h"

namespace lockstep {

inline constexpr int kFlakyRuns = 10;

struct ShrinkOptions {
  // For each signature. A case that has begun when the time is over is run to its end, and so is
  // the smallest one, once more, for its story.
  std::chrono::milliseconds time{std::chrono::seconds(10)};
  int64_t runs = 2000;  // distinct cases

  // The settings in which the same failure may show at less cost, cheapest first.
  std::function<std::vector<Setting>(const Setting&)> cheaper;
};

// The failure that candidates must show, and how often.
struct Goal {
  Verdict failure;
  int runs = 1, failures = 1;  // this many of at most so many runs
};

// The services of a campaign that shrinking needs.
class TrialRunner {
 public:
  virtual ~TrialRunner() = default;

  // As Trials::run.
  virtual std::vector<std::optional<Outcome>> run(const Goal& goal, const Setting& setting,
                                                  const std::vector<Case>& cases, Outcome wanted,
                                                  TrialTime until) = 0;

  // A run of `c` for the story, with the whole deadline, call sites and the output of its ranks.
  struct Story {
    Verdict verdict;
    Evidence evidence;
  };
  virtual std::optional<Story> tell(const Case& c, const Setting& setting) = 0;

  // The verdict of the last run of `c` there that showed the failure.
  virtual std::optional<Verdict> shown(const Case& c, const Setting& setting) const = 0;

  // A smaller case failed where the failure was found.
  virtual void keep(const Case& c, const Origin& origin) = 0;

  virtual bool interrupted() const = 0;
  virtual TrialTime now() const = 0;
};

struct FoundFailure {
  Case c;
  Setting setting;
  Verdict verdict;
  bool is_flaky = false;
  std::optional<Origin> origin = {};  // of a case from an earlier run
};

struct SmallestFailure {
  Case c;
  Verdict verdict;
  std::optional<Evidence> evidence;  // none: the one of the case that was found
  Shrunk shrunk;
};

// None if the failure does not show again. `known` is the smallest case of the same signature in
// another setting, if there is one: where it fails here too, it is the smallest here.
std::optional<SmallestFailure> shrink_failure(const Scenario& scenario, const FoundFailure& found,
                                              const SmallestFailure* known,
                                              const ShrinkOptions& options, TrialRunner& runner);

}  // namespace lockstep
