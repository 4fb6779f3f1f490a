// The invariants about any data-parallel training, whatever the program: each is a sentence and a
// pure function of a recorded run. docs/judge.md lists them, each with a mistake that it catches.
#pragma once

#include "harness/recorded/recorded_run.h"
#include "harness/verdict/verdict.h"

#include <span>

namespace lockstep::recorded {

// A mistake, and when it was made.
struct Found {
  Finding finding;
  Moment at;
};

struct Judgement {
  Findings findings;          // their rule is the invariant's, where they have none
  std::string compared;       // "48 collectives", of an invariant that was judged
  std::string why_not;        // why it was not judged; empty where it was
  bool is_certain = true;     // false: the findings say what is not known
  Findings remarks;           // true, customary or harmless: printed and counted, never a failure
  std::optional<Moment> at;   // of the first finding; none where it is about the whole run
  bool is_victim = false;     // a rank gave up waiting for a peer, so that another finding is first
  bool is_customary = false;  // its findings are remarks that a strict judgement fails
  bool is_covered = true;     // false: something was there, and `why_not` says why none judges it

  // Takes what is found first.
  void add(std::optional<Found> found) {
    if (!found || !findings.empty()) return;
    findings.push_back(std::move(found->finding));
    at = std::move(found->at);
  }
};

// Says that a run trains in a way that the invariant is not about.
inline Judgement not_covered(std::string why) {
  return {.why_not = std::move(why), .is_covered = false};
}

struct OneProcess;

struct Invariant {
  std::string_view name;  // "replicas.same_parameters"
  std::string_view rule;
  // For a user who has read a finding.
  std::string_view compared;  // what is looked at
  std::string_view mistake;   // a usual one that it catches
  std::string_view cure;
  std::string_view not_seen = "";  // what it cannot say; empty where nothing is worth a word
  // One of them judges: a run; a run beside one process; a run that resumes an earlier one.
  Judgement (*judge)(const RecordedRun& run) = nullptr;
  Judgement (*judge_against)(const RecordedRun& run, const OneProcess& one) = nullptr;
  Judgement (*judge_after)(const RecordedRun& run, const RecordedRun& before) = nullptr;
};

// Those of every run, in the order in which a reader wants to know: a later one is often a
// consequence. All: then those beside one process, and those of a run that resumes another.
std::span<const Invariant> invariants();
std::span<const Invariant> all_invariants();

// One function an invariant; each file has its family.
Judgement ranks_record_whole_run(const RecordedRun& run);
Judgement ranks_make_the_same_steps(const RecordedRun& run);
Judgement collectives_have_one_order(const RecordedRun& run);
Judgement forwards_run_through_the_wrapper(const RecordedRun& run);
Judgement parameters_are_the_same(const RecordedRun& run);
Judgement hyper_parameters_are_the_same(const RecordedRun& run);
Judgement optimizer_state_is_the_same(const RecordedRun& run);
Judgement optimizers_own_parameters_once(const RecordedRun& run);
Judgement buffers_follow_rank_zero(const RecordedRun& run);
Judgement gradients_are_the_same(const RecordedRun& run);
Judgement gradients_differ_in_no_sync(const RecordedRun& run);
Judgement gradients_are_averages(const RecordedRun& run);
Judgement gradients_reach_every_parameter(const RecordedRun& run);
Judgement datasets_are_the_same(const RecordedRun& run);
Judgement passes_are_partitions(const RecordedRun& run);
Judgement evaluations_repeat_no_sample(const RecordedRun& run);
Judgement orders_change(const RecordedRun& run);
Judgement random_streams_differ(const RecordedRun& run);
Judgement values_stay_finite(const RecordedRun& run);

}  // namespace lockstep::recorded
