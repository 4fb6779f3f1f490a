// Decides the next work of each lane of a campaign, and takes what came of it: cases of each job in
// the order of the jobs, jobs that have ended, and failures to shrink, one job at a time. Every
// public function takes the lock once. Thread-safe.
#pragma once

#include "harness/campaign/job_run.h"
#include "harness/campaign/trial_batch.h"

namespace lockstep {

// The next work of a lane: to run a candidate of a search or a case of a job, to end a job, or to
// shrink its failures.
struct Task {
  enum class Kind { candidate, runs, ends, shrinks };
  Kind kind = Kind::runs;
  JobRun* job = nullptr;
  size_t index = 0;     // of the case or the candidate
  CaseList cases = {};  // of the job, when the task was handed out
  std::shared_ptr<TrialBatch> batch = {};
};

// The outcome of the first runs of a case.
struct FirstRun {
  Verdict verdict;
  int passes = 0;  // before it
  SchedulesTried schedules;
  std::optional<Evidence> evidence;
};

class Agenda {
 public:
  // The runner outlives it.
  Agenda(std::vector<Job> jobs, CaseRunner& runner);

  // Starts the time, and closes the jobs without a case.
  void begin();

  // Blocks while other lanes are at work that may leave something to do. From then on the lane is
  // at work, until it calls done(). None: there is nothing more.
  std::optional<Task> next();
  void done();
  // For lanes that wait, once the campaign is stopped.
  void wake() { changed_.notify_all(); }

  // False where an earlier failure has made the case pointless: then it counts as dropped.
  bool is_wanted(const Task& task);
  void begin_run(JobRun& job);
  void end_run(JobRun& job);
  bool may_be_reported(const JobRun& job, size_t index, const Verdict& verdict);
  void returned(const Task& task, FirstRun first);

  // Once no case of it is left: true for one lane, which ends the job.
  bool ends(JobRun& job);
  // It waits to be shrunk, or is closed.
  void ended(JobRun& job);
  void close(JobRun& job);

  // Lanes without a case run the candidates of this batch; null: of none.
  void offer(std::shared_ptr<TrialBatch> batch);
  // The smallest failures by subject, scenario and signature. Null: it was not shrunk yet.
  const SmallestFailure* smallest(const std::string& key) const;
  void keep_smallest(JobRun& job, size_t culprit, const std::string& key, SmallestFailure found);

  bool time_is_over() const;

  // With all lanes at rest: the results in the order of the jobs, and those that have none.
  void finish(Run& run);

 private:
  using Clock = std::chrono::steady_clock;
  std::optional<Task> find();
  std::optional<Task> find_case();
  std::optional<Task> find_job_to_end();
  JobRun* job_to_shrink();
  bool is_complete(const JobRun& job) const;
  bool may_grow(const JobRun& job) const;
  void grow_all();
  void close_locked(JobRun& job);

  CaseRunner& runner_;
  const CampaignOptions& options_;
  Clock::time_point began_{};

  mutable std::mutex mutex_;
  std::condition_variable changed_;  // there may be something to do, or there is nothing more
  std::vector<JobRun> jobs_;
  size_t lanes_at_work_ = 0;
  std::shared_ptr<TrialBatch> batch_;
  std::map<std::string, SmallestFailure> smallest_;
  size_t reported_ = 0;  // jobs whose results the listeners have
  bool hand_out_ = true;
  int failed_ = 0;       // jobs
  size_t next_job_ = 0;  // from which a case is looked for
};

}  // namespace lockstep
