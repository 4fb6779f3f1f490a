#include "harness/campaign/job_run.h"

#include "harness/cases/draw.h"
#include "harness/cases/groups.h"
#include "harness/cases/shown_fields.h"

#include <algorithm>
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
void report_each_signature_once(Result& result) {
  std::set<std::string> seen{result.worst.signature()};
  std::erase_if(result.others, [&](const Result::Found& other) {
    return !seen.insert(other.worst.signature()).second;
  });
}

void use_smallest(Verdict& verdict, Failure& failure, JobRun& job) {
  const auto index = static_cast<size_t>(failure.number) - 1;
  const auto found = job.smallest.find(index);
  if (found == job.smallest.end()) return;
  auto& smallest = found->second;
  failure.c = smallest.c;
  failure.unlike_default = unlike_default(job.job().scenario, smallest.c.value);
  failure.shrunk = smallest.shrunk;
  if (smallest.evidence) job.evidence[index] = *smallest.evidence;
  verdict = smallest.verdict;
}

// Adds the files: the case, and the output of its ranks.
void keep(Failure& failure, bool is_certain, JobRun& job, CaseRunner& runner) {
  const auto index = static_cast<size_t>(failure.number) - 1;
  const auto& given = runner.options().case_file;
  const bool is_given = !given.empty() && failure.c == job.job().cases[index];
  if (is_certain && !is_given)
    failure.case_file =
        runner.save_failure(failure.c, case_file(job.job().scenario, saved_case_of(failure)));
  if (is_given) failure.case_file = given;
  add_evidence(job.evidence[index], failure);
}

}  // namespace

void choose_shown_passes(std::vector<JobRun>& jobs) {
  constexpr size_t kLookedAt = 64;
  std::set<std::string> families;
  for (auto& each : jobs) {
    const Job& job = each.job();
    const auto family = family_of(job.scenario.name);
    if (families.contains(family)) continue;
    for (size_t index = 0; index < std::min(kLookedAt, job.cases.size()); ++index) {
      if (!job.shard.has(static_cast<int64_t>(index) + 1)) continue;
      if (!each.shown) each.shown = index;
      if (job.cases.world_size(index) < 2) continue;
      each.shown = index;
      break;
    }
    if (each.shown) families.insert(family);
  }
}

void close(JobRun& job, CaseRunner& runner) {
  job.stage = JobRun::Stage::closed;
  Result result = job.tally.result();
  result.took = std::chrono::duration_cast<std::chrono::milliseconds>(job.time.took());
  const auto complete = [&](Result::Kind kind, Verdict& verdict, Failure& failure) {
    const auto drawn = verdict.signature();
    if (job.job().scenario.judges_each_step) failure.further = other_explanations(verdict);
    use_smallest(verdict, failure, job);
    rename_signature(result, drawn, verdict.signature());
    failure.program = runner.options().in_words(failure.c);
    failure.usual_mistake = job.job().scenario.usual_mistake;
    keep(failure, is_failure(kind), job, runner);
  };
  if (result.failure) complete(result.kind, result.worst, *result.failure);
  for (auto& other : result.others) complete(other.kind, other.worst, other.failure);
  report_each_signature_once(result);
  job.result = std::move(result);
}

}  // namespace lockstep
