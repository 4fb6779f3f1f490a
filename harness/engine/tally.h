// One scenario in one setting while it is played: which case comes next, what came back, and the
// result that this makes. No threads and no clock of its own; the campaign guards it.
//
// The first failing case, by number and not by time, decides the result. No case after it is
// started once it is known, and those that were are not counted: so the result does not depend on
// how many cases ran at once.
//
// Long ones first: of the next few cases those of most ranks are started before the others, so that
// small worlds fill the gaps which a large one leaves, and no large one comes last of all.
#pragma once

#include "harness/core/result.h"

namespace lockstep {

// What is to be played: `cases` in this order.
struct Job {
  Scenario scenario;
  Setting setting;
  std::vector<Case> cases;
  std::string left_out = {};  // why there are none; empty: there ought to be
  RunShard shard = {};        // of `cases` only these are played; numbers stay those of the list
};

// What the job of a whole campaign is, for the reader of its shards.
Planned planned(const Job& job);

class Tally {
 public:
  explicit Tally(Job job);

  const Job& job() const { return job_; }

  // The index of the next case to play, or none. Each is handed out once.
  std::optional<size_t> next();

  // Every index handed out comes back through one of these: played, or no longer worth playing.
  bool worth_playing(size_t index) const { return index < stop_at_; }
  void played(size_t index, Verdict verdict);
  void dropped(size_t index);

  // No case that was not handed out yet will be.
  void hand_out_no_more() { next_ = order_.size(); }

  // Nothing is being played and nothing is left to play.
  bool complete() const;

  // The case the result stands on, once complete: the failing one, else an inconclusive one.
  std::optional<size_t> culprit() const;
  const Verdict& verdict(size_t index) const { return *verdicts_[index]; }

  // What playing the culprit again gave. Unlike verdicts make the result flaky.
  void played_again(Verdict verdict) { again_.push_back(std::move(verdict)); }

  // True if the culprit's plays so far differ in kind or signature.
  bool flaky() const;

  Result result() const;

 private:
  std::vector<CaseGroup> groups() const;
  Failure failure(size_t index) const;

  Job job_;
  std::vector<std::optional<Verdict>> verdicts_;
  std::vector<Verdict> again_;
  std::vector<size_t> order_;  // in which cases are handed out
  size_t next_ = 0;            // in `order_`
  size_t stop_at_ = 0;         // the index of the first case that is not worth playing
  int running_ = 0, inconclusive_ = 0;
};

}  // namespace lockstep
