// The loop of `run` and `replay`: distributes every job's cases over the lanes, records, runs and
// judges each; the first failing case of a job runs again, is shrunk and saved, and its job stops.
//
// Failures are shrunk in the order of the plan, one at a time, with the candidates of one on all
// lanes that have nothing else to play; so what is found does not depend on how many there are. A
// scenario that fails alike on one subject in several settings is shrunk in the first of them.
//
// A tier that breaks (TierError) makes the case inconclusive. A tier that is lost for good
// (TierLost) also ends the campaign: jobs without a result then are not_finished, for that reason.
// An exception of the listener ends the run and is thrown by run().
#pragma once

#include "harness/campaign/case_run.h"
#include "harness/campaign/evidence.h"
#include "harness/campaign/run_archive.h"
#include "harness/campaign/shrink_failure.h"
#include "harness/campaign/slots.h"
#include "harness/campaign/tally.h"

#include <atomic>
#include <exception>
#include <thread>

namespace lockstep {

struct CampaignOptions {
  // For each run of a case. A hang costs it twice, since a failing case runs again.
  std::chrono::milliseconds deadline{std::chrono::seconds(30)};

  // Ranks alive at once over all lanes; at least 1. A larger world runs alone.
  int slots = 1;

  // `stop_all`: once `failures_most` jobs have failed no further case starts; jobs without a result
  // then are not_finished. `keep_going`: every case of every job runs.
  AfterFailure after_failure = AfterFailure::go_on;
  int failures_most = 1;

  // From the beginning of the campaign. Afterwards no case starts, but those that run again or are
  // candidates; jobs that have run no case until then are not_finished.
  std::optional<std::chrono::milliseconds> time = {};

  // Once all cases have run, jobs that hold are asked for more, until the time is over or a failure
  // stops all.
  bool draws_on = false;

  // How often a case runs that passes each time.
  int repeat = 1;

  // The clock for the duration of results.
  std::function<std::chrono::steady_clock::time_point()> now = std::chrono::steady_clock::now;

  // The file of a replayed case, and what that was before it was shrunk. Where empty, failing cases
  // are saved to files of their own.
  std::filesystem::path case_file;
  std::optional<Origin> case_origin = {};

  // None: failing cases stay as they were found.
  std::optional<ShrinkOptions> shrink = {};
};

class Campaign {
 public:
  // `lanes`, the archive and the listener outlive the campaign. `canaries` are jobs that must fail;
  // each runs its first case, and these runs are in the archive only.
  Campaign(std::vector<Job> jobs, std::vector<Job> canaries, CampaignOptions options,
           std::vector<std::unique_ptr<Tier>>& lanes, RunArchive& archive, Listener& live);

  // Once. Blocks until all cases have run, or until `interrupted` turns true: then every lane is
  // stopped and jobs without a result are not_finished. Fills results (in the order of the jobs),
  // not_finished, canary, interrupted and took of `run`. Throws what the listener threw, with every
  // lane at rest.
  void run(const std::atomic<bool>& interrupted, Run& run);

 private:
  using Clock = std::chrono::steady_clock;
  struct RunningJob {
    RunningJob(Job job, AfterFailure after) : tally(std::move(job), after) {}
    Tally tally;
    std::map<size_t, Evidence> evidence;  // by the index of a failing case
    std::optional<size_t> shown;          // the case whose history is kept where it passes
    int plays = 0;                        // of its cases, right now
    Clock::time_point since;              // start of the oldest of these, if there is one
    Clock::duration took{};               // while at least one ran, up to `since`
    enum class Stage { playing, ends, waits_to_shrink, shrinking, closed };
    Stage stage = Stage::playing;
    bool has_failed = false, has_no_more = false;
    std::map<size_t, SmallestFailure> smallest;  // by the index of a failing case
    std::optional<Result> result;
  };
  class Busy;
  class PlayTime;
  class ShrinkingOnLanes;

  // Candidates that the lanes play for one that shrinks.
  struct Batch {
    TrialList list;
    const Goal goal;
    const Setting setting;
    const int number, of;  // of the failing case
    const Scenario& scenario;
    std::map<std::string, Verdict> shown = {};  // by the hash of a case that shows the failure
  };

  // The next work of a lane: to play a candidate or a case, or to shrink or end a job.
  struct Task {
    enum class Kind { candidate, plays, shrinks, ends };
    Kind kind = Kind::plays;
    size_t job = 0, index = 0;
    std::shared_ptr<Batch> batch = {};
  };

  void work(size_t lane);
  std::jthread thread_for(size_t lane);
  void tell_that_time_passes();
  void play_canaries(Tier& tier);
  std::optional<Task> next_task();
  std::optional<Task> find_task();
  std::optional<Task> find_case();
  std::optional<Task> find_job_to_end();
  bool may_grow(const RunningJob& running) const;
  void grow_all();
  bool time_is_over() const;
  void play(Tier& tier, const Task& task);
  void play_case(Tier& tier, const Task& task);
  void end_job(Tier& tier, RunningJob& running);
  struct First {
    Verdict verdict;
    int passes = 0;  // before it
    SchedulesTried schedules;
    std::optional<Evidence> evidence;
  };
  First play_first(Tier& tier, RunningJob& running, size_t index);
  CaseList cases_of(const Job& job);
  bool may_be_reported(const RunningJob& running, size_t index, const Verdict& verdict);
  void choose_shown_passes();
  void keep_history(const RunningJob& running, size_t index, const CaseRun& played);
  void play_again(Tier& tier, RunningJob& running, size_t culprit);
  CaseRun play_once(Tier& tier, const Job& job, size_t index, int play,
                    std::initializer_list<Listener*> listeners);
  void shrink_or_close(RunningJob& running);
  std::optional<size_t> job_to_shrink() const;
  void shrink(Tier& tier, RunningJob& running);
  void shrink_one(Tier& tier, RunningJob& running, size_t culprit);
  void play_candidate(Tier& tier, Batch& batch, size_t index);
  std::pair<Outcome, Verdict> outcome(Tier& tier, const Batch& batch, const Case& c);
  CaseRun play_trial(Tier& tier, const Scenario& scenario, const Turn& turn,
                     const CaseRunOptions& how);
  void close(RunningJob& running);
  void use_smallest(Verdict& verdict, Failure& failure, RunningJob& running);
  void keep(Failure& failure, bool is_certain, RunningJob& running);
  void report_in_order();
  void finish(Run& run);
  void stop();
  bool stopped() const { return stopped_ || *interrupted_; }

  const CampaignOptions options_;
  std::vector<std::unique_ptr<Tier>>& lanes_;
  RunArchive& archive_;
  Listener& live_;
  const std::vector<Job> canaries_;

  Slots slots_;
  const std::atomic<bool>* interrupted_ = nullptr;
  std::atomic<bool> stopped_ = false;  // cases still running no longer count
  std::mutex mutex_;                   // guards all below, and the calls of both listeners
  std::condition_variable lane_ended_;
  std::condition_variable changed_;  // there may be something to play, or there is nothing more
  size_t lanes_at_work_ = 0, lanes_busy_ = 0;
  std::shared_ptr<Batch> batch_;
  std::map<std::string, SmallestFailure> shrunk_;  // by subject, scenario and signature
  std::vector<RunningJob> jobs_;
  size_t reported_ = 0;  // jobs whose results the listeners have
  bool hand_out_ = true;
  int failed_ = 0;       // jobs
  size_t next_job_ = 0;  // from which a case is looked for
  std::optional<Clock::time_point> began_;
  std::vector<SlowCase> slowest_;
  std::string lost_;  // why the tier is lost, or nothing
  Run::Canary canary_ = Run::Canary::not_played;
  std::exception_ptr broken_;
};

}  // namespace lockstep
