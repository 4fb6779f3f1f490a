// Running candidates: smaller cases, or similar ones, that may show the failure of another case.
#pragma once

#include "harness/cases/scenario.h"

#include <chrono>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace lockstep {

using TrialTime = std::chrono::steady_clock::time_point;

// The outcome of running a candidate: it shows the failure, it passes, or it ends in another way
// (another failure, or a refusal).
enum class Outcome { shows, passes, other };

// Runs candidates, several at once where there is room.
class Trials {
 public:
  virtual ~Trials() = default;

  // The outcome of each case. Cases start in their order, none after `until`, and none
  // once the first whose outcome is `wanted` is known: every case before that one has an outcome.
  // Without one, some case has none only where the time is over or the run is being ended.
  virtual std::vector<std::optional<Outcome>> run(const std::vector<Case>& cases, Outcome wanted,
                                                  TrialTime until) = 0;
};

// The candidates of one search. Each distinct case is run once and counted once; cases that were
// run ahead of their turn and not needed do not count, so `runs` does not depend on how many
// were run at once.
class Search {
 public:
  explicit Search(Trials& trials) : trials_(trials) {}

  // From now on: no case is run after `until`, nor more than `runs_most` in all.
  void allow(TrialTime until, int64_t runs_most);

  // The first of `cases` whose outcome is `wanted`, from `begin` on and round to it. None if there
  // is no such case, or if the search ended before that was known.
  std::optional<size_t> first(const std::vector<Case>& cases, Outcome wanted, size_t begin = 0);

  // From now on fewer cases show the failure: those that did may no longer.
  void narrow();

  // None for a case that has not run.
  std::optional<Outcome> outcome(const Case& c) const;

  enum class End { none, runs, time };
  End ended() const { return end_; }
  int64_t runs() const { return static_cast<int64_t>(counted_.size()); }

 private:
  std::optional<size_t> first_of(const std::vector<Case>& cases, Outcome wanted);

  Trials& trials_;
  TrialTime until_ = TrialTime::max();
  int64_t runs_most_ = 0;
  std::unordered_map<std::string, Outcome> known_;  // by the hash of the case
  std::unordered_set<std::string> counted_;
  End end_ = End::none;
};

// A list of cases while several lanes run it. No threads of its own; its owner guards it.
class TrialList {
 public:
  TrialList(std::vector<Case> cases, Outcome wanted);

  const Case& operator[](size_t index) const { return cases_[index]; }

  // The index of the next case to run, or none at all from now on.
  std::optional<size_t> next();

  // Each index that was handed out comes back, without an outcome if the run was ended.
  void record(size_t index, std::optional<Outcome> outcome);

  // Hands out nothing more.
  void close() { is_closed_ = true; }

  // No case that is out can change the first `wanted` one, and no other will be.
  bool complete() const;

  const std::vector<std::optional<Outcome>>& outcomes() const { return outcomes_; }

 private:
  bool has_next() const { return !is_closed_ && next_ < needed_; }

  std::vector<Case> cases_;
  const Outcome wanted_;
  std::vector<std::optional<Outcome>> outcomes_;
  std::vector<bool> is_out_;
  size_t next_ = 0;
  size_t needed_;  // cases from here on come after one that is `wanted`
  bool is_closed_ = false;
};

}  // namespace lockstep
