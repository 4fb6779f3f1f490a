// One job of a campaign while it runs: its tally, its evidence, and the stage it has reached. No
// threads of its own: the agenda guards it. From `ends` on it belongs to the lane that has the
// task.
#pragma once

#include "harness/campaign/case_runner.h"

namespace lockstep {

// The time in which at least one case of a job ran.
class TimeAtWork {
 public:
  using Clock = std::chrono::steady_clock;
  void begin(Clock::time_point now) {
    if (runs_++ == 0) since_ = now;
  }
  void end(Clock::time_point now) {
    if (--runs_ == 0) took_ += now - since_;
  }
  bool is_idle() const { return runs_ == 0; }
  Clock::duration took() const { return took_; }  // up to the last time at which none ran

 private:
  int runs_ = 0;
  Clock::time_point since_;
  Clock::duration took_{};
};

struct JobRun {
  JobRun(Job job, AfterFailure after) : tally(std::move(job), after) {}
  const Job& job() const { return tally.job(); }

  enum class Stage { runs, ends, waits_to_shrink, shrinks, closed };
  Stage stage = Stage::runs;
  Tally tally;
  std::map<size_t, Evidence> evidence;         // by the index of a failing case
  std::map<size_t, SmallestFailure> smallest;  // likewise
  std::optional<size_t> shown;                 // the case whose history is kept where it passes
  TimeAtWork time;
  bool has_failed = false, has_no_more = false;
  std::optional<Result> result;  // of a closed one
};

// Chooses from each family of scenarios the first case with several ranks, among the smallest ones.
void choose_shown_passes(std::vector<JobRun>& jobs);

// Makes the result of a job that has ended: from its tally and its smallest cases, which it saves.
void close(JobRun& job, CaseRunner& runner);

}  // namespace lockstep
