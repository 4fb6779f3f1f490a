// The results of a campaign: made of a tally and the smallest cases, saved, and reported in order.
#include "harness/campaign/campaign.h"
#include "harness/cases/draw.h"
#include "harness/cases/groups.h"
#include "harness/cases/shown_fields.h"

#include <set>

namespace lockstep {

namespace {

SavedCase saved_case_of(const Failure& failure) {
  SavedCase saved{.c = failure.c};
  if (const auto& shrunk = failure.shrunk; shrunk && shrunk->steps > 0)
    saved.origin = {shrunk->drawn, shrunk->steps, shrunk->end == Shrunk::End::smallest};
  return saved;
}

// Where a smallest case explains more than the drawn one did, two signatures may have become one.
void tell_each_signature_once(Result& result) {
  std::set<std::string> seen{result.worst.signature()};
  std::erase_if(result.others, [&](const Result::Found& other) {
    return !seen.insert(other.worst.signature()).second;
  });
}

}  // namespace

void Campaign::close(RunningJob& running) {
  running.stage = RunningJob::Stage::closed;
  Result result = running.tally.result();
  result.took = std::chrono::duration_cast<std::chrono::milliseconds>(running.took);
  const auto tell = [&](Result::Kind kind, Verdict& verdict, Failure& failure) {
    const auto drawn = verdict.signature();
    use_smallest(verdict, failure, running);
    rename_signature(result, drawn, verdict.signature());
    keep(failure, is_failure(kind), running);
  };
  if (result.failure) tell(result.kind, result.worst, *result.failure);
  for (auto& other : result.others) tell(other.kind, other.worst, other.failure);
  tell_each_signature_once(result);
  running.result = std::move(result);
  report_in_order();
}

// Call it with the lock held.
void Campaign::use_smallest(Verdict& verdict, Failure& failure, RunningJob& running) {
  const auto index = static_cast<size_t>(failure.number) - 1;
  const auto found = running.smallest.find(index);
  if (found == running.smallest.end()) return;
  auto& smallest = found->second;
  const Job& job = running.tally.job();
  failure.c = smallest.c;
  failure.unlike_default = unlike_default(job.scenario, smallest.c.value);
  failure.shrunk = smallest.shrunk;
  if (smallest.evidence) running.evidence[index] = *smallest.evidence;
  verdict = smallest.verdict;
}

// Adds the files: the case, and the output of its ranks.
void Campaign::keep(Failure& failure, bool is_certain, RunningJob& running) {
  const bool is_given =
      !options_.case_file.empty() &&
      failure.c == running.tally.job().cases[static_cast<size_t>(failure.number) - 1];
  if (is_certain && !is_given)
    failure.case_file = archive_.save_failure(
        failure.c, case_file(running.tally.job().scenario, saved_case_of(failure)));
  if (is_given) failure.case_file = options_.case_file;
  add_evidence(running.evidence[static_cast<size_t>(failure.number) - 1], failure);
}

void Campaign::report_in_order() {
  for (; reported_ < jobs_.size() && jobs_[reported_].result; ++reported_) {
    archive_.on_result(*jobs_[reported_].result);
    live_.on_result(*jobs_[reported_].result);
  }
}

void Campaign::finish(Run& run) {
  const std::string why = run.interrupted  ? "the run was interrupted"
                          : !lost_.empty() ? lost_
                          : time_is_over() ? "its time was over before a case of it had run"
                                           : "an earlier failure ended the run";
  for (auto& running : jobs_)
    if (running.stage == RunningJob::Stage::waits_to_shrink ||
        (run.interrupted && running.has_failed && running.stage != RunningJob::Stage::closed))
      close(running);
  for (size_t job = 0; job < jobs_.size(); ++job) {
    const auto& running = jobs_[job];
    if (!running.result) {
      const Job& unfinished = running.tally.job();
      run.not_finished.push_back({unfinished.scenario.name, unfinished.setting, why});
      continue;
    }
    if (job >= reported_) {
      archive_.on_result(*running.result);
      live_.on_result(*running.result);
    }
    run.results.push_back(*running.result);
  }
  for (auto& planned_job : run.plan)
    for (const auto& running : jobs_)
      if (const Job& job = running.tally.job(); job.more &&
                                                job.scenario.name == planned_job.scenario &&
                                                job.setting == planned_job.setting)
        planned_job = planned(job);
  run.slowest = slowest_;
  run.canary = canary_;
}

}  // namespace lockstep
