// Candidates of one search, while the lanes run them for the lane that shrinks. Thread-safe.
#pragma once

#include "harness/campaign/case_runner.h"

namespace lockstep {

class TrialBatch {
 public:
  TrialBatch(TrialList list, Goal goal, Setting setting, int number, int of,
             const Scenario& scenario)
      : goal_(std::move(goal)),
        setting_(std::move(setting)),
        number_(number),
        of_(of),
        scenario_(scenario),
        list_(std::move(list)) {}

  // The index of the next candidate to run, or none at all from now on.
  std::optional<size_t> next();

  // Runs it in a lane's tier, as often as the goal says. Throws what CaseRunner::run throws.
  void run(size_t index, Tier& tier, CaseRunner& runner);

  // Hands out nothing more.
  void close();

  // False once no candidate that runs can change the outcome. Blocks until one has come back, but
  // not for long.
  bool wait();

  std::vector<std::optional<Outcome>> outcomes() const;
  // The last verdict of each candidate that shows the failure, by its hash.
  std::map<std::string, Verdict> shown() const;

 private:
  std::pair<Outcome, Verdict> outcome(const Case& c, Tier& tier, CaseRunner& runner) const;

  const Goal goal_;
  const Setting setting_;
  const int number_, of_;  // of the failing case
  const Scenario& scenario_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  TrialList list_;
  std::map<std::string, Verdict> shown_;
};

}  // namespace lockstep
