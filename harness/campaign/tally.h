// One scenario in one setting while it runs: the next case, the verdicts that came back, and the
// result that they make. No threads and no clock of its own; the campaign guards it.
//
// The first failing case, by number and not by time, decides the result. No case after it is
// started once it is known, and those that were are not counted: so the result does not depend on
// how many cases ran at once. A tally that keeps going runs every case instead; its result holds
// the first case of each signature, and counts them all.
//
// Largest worlds first: of the next few cases those with the most ranks start before the others, so
// that small worlds fill the gaps which a large one leaves, and no large one runs last of all.
#pragma once

#include "harness/cases/case_list.h"
#include "harness/cases/result.h"

namespace lockstep {

// The cases to run, in this order.
struct Job {
  Scenario scenario;
  Setting setting;
  CaseList cases;
  std::string left_out = {};  // why there are none; empty: there should be
  RunShard shard = {};        // only these of `cases` run; numbers stay those of the list

  // The shares of labels that the scenario requires are judged; false where the user narrowed the
  // cases.
  bool judges_shares = false;

  // The same cases and more, or as many where there are no others. Empty: `cases` is all.
  std::function<CaseList()> more = {};
};

// The result of a case with this verdict: a refused one is a skip.
Result::Kind result_kind(Verdict::Kind kind);

// The job of a whole campaign, for the reader of its shards.
JobSummary summary_of(const Job& job);

// The cases that a failing case stops: those of its job, of every job, or none.
enum class AfterFailure { go_on, stop_all, keep_going };

class Tally {
 public:
  explicit Tally(Job job, AfterFailure after_failure = AfterFailure::go_on);

  const Job& job() const { return job_; }

  // The index of the next case to run, or none. Each is handed out once.
  std::optional<size_t> next();

  // Every index handed out comes back through one of these: run, or no longer worth running. A case
  // may have been run several times, with `passes` that came before the verdict.
  bool worth_running(size_t index) const { return index < stop_at_; }
  void record(size_t index, Verdict verdict, int passes = 0);
  void dropped(size_t index);

  // The schedules of a case that asks for all of them; called before `record`.
  void tried_schedules(size_t index, const SchedulesTried& tried);

  // Asks the job for more cases. False: it has no others, or a failing case stopped it.
  bool grow();

  // True once a case was run.
  bool any_ran() const;

  // True if no case that was not handed out yet will be.
  void hand_out_no_more() { next_ = order_.size(); }

  // Nothing is running and nothing is left to run.
  bool complete() const;

  // The cases the result stands on, once complete: the failing one, else an inconclusive one. If
  // the tally keeps going, the first case of each signature, failing ones first.
  std::vector<size_t> culprits() const;
  const Verdict& verdict(size_t index) const { return *verdicts_[index]; }
  int passes(size_t index) const { return passes_.contains(index) ? passes_.at(index) : 0; }

  // True if no case of a lower number has this verdict's signature so far.
  bool is_first_of_its_signature(size_t index, const Verdict& verdict) const;

  // The verdict of running a culprit again. Different verdicts make it flaky.
  void record_again(size_t index, Verdict verdict) { again_[index].push_back(std::move(verdict)); }

  // True if the culprit's runs so far differ in kind or signature.
  bool flaky(size_t index) const;

  Result result() const;

 private:
  void remember_signature(size_t index);
  void hand_out_from(size_t first);
  std::vector<CaseGroup> groups() const;
  bool the_list_has_verdicts() const;
  ScheduleCounts schedule_counts() const;
  Failure failure(size_t index) const;
  Result::Found found(size_t index) const;

  Job job_;
  const bool keeps_going_;
  const size_t listed_;  // the cases of the job at first
  std::vector<std::optional<Verdict>> verdicts_;
  std::map<std::string, size_t> first_of_;  // by signature, the lowest index so far
  std::map<size_t, int> passes_;            // of a culprit, before the verdict
  std::map<size_t, std::vector<Verdict>> again_;
  std::map<size_t, ScheduleCounts> schedules_;
  std::vector<size_t> order_;  // the order in which cases are handed out
  size_t next_ = 0;            // in `order_`
  size_t stop_at_ = 0;         // the index of the first case that is not worth running
  int running_ = 0, inconclusive_ = 0;
};

}  // namespace lockstep
