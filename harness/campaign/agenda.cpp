#include "harness/campaign/agenda.h"

#include <algorithm>
#include <utility>

namespace lockstep {

Agenda::Agenda(std::vector<Job> jobs, CaseRunner& runner)
    : runner_(runner), options_(runner.options()) {
  for (auto& job : jobs) jobs_.emplace_back(std::move(job), options_.after_failure);
  choose_shown_passes(jobs_);
}

void Agenda::begin() {
  began_ = options_.now();
  const std::lock_guard lock(mutex_);
  for (auto& job : jobs_)
    if (job.tally.complete() && !may_grow(job)) close_locked(job);
}

std::optional<Task> Agenda::next() {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (runner_.end().reached()) return {};
    if (auto task = find()) {
      ++lanes_at_work_;
      return task;
    }
    if (lanes_at_work_ == 0) return {};
    changed_.wait(lock);
  }
}

void Agenda::done() {
  const std::lock_guard lock(mutex_);
  --lanes_at_work_;
  changed_.notify_all();
}

std::optional<Task> Agenda::find() {
  if (batch_)
    if (const auto index = batch_->next())
      return Task{.kind = Task::Kind::candidate, .index = *index, .batch = batch_};
  if (auto* job = job_to_shrink()) {
    job->stage = JobRun::Stage::shrinks;
    return Task{.kind = Task::Kind::shrinks, .job = job};
  }
  if (auto found = find_case()) return found;
  if (options_.draws_on && hand_out_) {
    grow_all();
    if (auto found = find_case()) return found;
  }
  return find_job_to_end();
}

// In the order of the jobs; where a time is set, of each job in turn, so that all get their share.
std::optional<Task> Agenda::find_case() {
  if (time_is_over()) {
    hand_out_ = false;
    for (auto& job : jobs_) job.tally.hand_out_no_more();
  }
  for (size_t i = 0; i < jobs_.size(); ++i) {
    const size_t place = (next_job_ + i) % jobs_.size();
    auto& job = jobs_[place];
    // Cases of lower numbers still decide the result of a job that has failed.
    if (!hand_out_ && job.evidence.empty()) continue;
    if (const auto index = job.tally.next()) {
      if (options_.time) next_job_ = place + 1;
      return Task{.kind = Task::Kind::runs, .job = &job, .index = *index, .cases = job.job().cases};
    }
  }
  return {};
}

// A job that waited for more cases, of which none comes, or whose time was over.
std::optional<Task> Agenda::find_job_to_end() {
  for (auto& job : jobs_) {
    if (job.stage != JobRun::Stage::runs || may_grow(job)) continue;
    const bool waited = options_.draws_on && !hand_out_ && job.evidence.empty();
    if (waited && job.tally.any_ran()) job.tally.hand_out_no_more();
    if (!is_complete(job)) continue;
    job.stage = JobRun::Stage::ends;
    return Task{.kind = Task::Kind::ends, .job = &job};
  }
  return {};
}

// The first job that waits, once all before it are closed.
JobRun* Agenda::job_to_shrink() {
  for (auto& job : jobs_) {
    if (job.stage == JobRun::Stage::waits_to_shrink) return &job;
    const bool ends_without_result = !hand_out_ && job.evidence.empty() && job.time.is_idle();
    if (job.stage != JobRun::Stage::closed && !ends_without_result) return nullptr;
  }
  return nullptr;
}

bool Agenda::is_complete(const JobRun& job) const {
  return job.tally.complete() && job.tally.any_ran();
}

bool Agenda::may_grow(const JobRun& job) const {
  return options_.draws_on && hand_out_ && job.job().more && !job.has_no_more &&
         job.tally.culprits().empty();
}

void Agenda::grow_all() {
  for (auto& job : jobs_)
    if (job.stage == JobRun::Stage::runs && may_grow(job)) job.has_no_more = !job.tally.grow();
}

bool Agenda::time_is_over() const {
  return options_.time && options_.now() - began_ >= *options_.time;
}

bool Agenda::is_wanted(const Task& task) {
  const std::lock_guard lock(mutex_);
  auto& tally = task.job->tally;
  if (tally.worth_running(task.index)) return true;
  tally.dropped(task.index);
  return false;
}

void Agenda::begin_run(JobRun& job) {
  const std::lock_guard lock(mutex_);
  job.time.begin(options_.now());
}

void Agenda::end_run(JobRun& job) {
  const std::lock_guard lock(mutex_);
  job.time.end(options_.now());
}

bool Agenda::may_be_reported(const JobRun& job, size_t index, const Verdict& verdict) {
  const std::lock_guard lock(mutex_);
  return job.tally.is_first_of_its_signature(index, verdict);
}

void Agenda::returned(const Task& task, FirstRun first) {
  const std::lock_guard lock(mutex_);
  JobRun& job = *task.job;
  if (first.evidence) job.evidence[task.index] = std::move(*first.evidence);
  if (is_failure(first.verdict.kind) && !std::exchange(job.has_failed, true) &&
      ++failed_ >= options_.failures_most && options_.after_failure == AfterFailure::stop_all)
    hand_out_ = false;
  job.tally.tried_schedules(task.index, first.schedules);
  job.tally.record(task.index, std::move(first.verdict), first.passes);
  if (!runner_.end().lost().empty()) job.tally.hand_out_no_more();
}

bool Agenda::ends(JobRun& job) {
  const std::lock_guard lock(mutex_);
  if (job.stage != JobRun::Stage::runs || !is_complete(job) || may_grow(job)) return false;
  job.stage = JobRun::Stage::ends;
  return true;
}

void Agenda::ended(JobRun& job) {
  const std::lock_guard lock(mutex_);
  const auto culprits = job.tally.culprits();
  const bool has_failed = std::any_of(culprits.begin(), culprits.end(), [&](size_t culprit) {
    return is_failure(job.tally.verdict(culprit).kind);
  });
  if (options_.shrink && has_failed && !runner_.end().reached())
    job.stage = JobRun::Stage::waits_to_shrink;
  else
    close_locked(job);
}

void Agenda::close(JobRun& job) {
  const std::lock_guard lock(mutex_);
  close_locked(job);
}

void Agenda::close_locked(JobRun& job) {
  lockstep::close(job, runner_);
  for (; reported_ < jobs_.size() && jobs_[reported_].result; ++reported_)
    runner_.on_result(*jobs_[reported_].result);
}

void Agenda::offer(std::shared_ptr<TrialBatch> batch) {
  const std::lock_guard lock(mutex_);
  batch_ = std::move(batch);
  changed_.notify_all();
}

const SmallestFailure* Agenda::smallest(const std::string& key) const {
  const std::lock_guard lock(mutex_);
  const auto known = smallest_.find(key);
  return known == smallest_.end() ? nullptr : &known->second;
}

void Agenda::keep_smallest(JobRun& job, size_t culprit, const std::string& key,
                           SmallestFailure found) {
  const std::lock_guard lock(mutex_);
  smallest_.try_emplace(key, found);
  job.smallest.emplace(culprit, std::move(found));
}

void Agenda::finish(Run& run) {
  const auto lost = runner_.end().lost();
  const std::string why = run.interrupted  ? "the run was interrupted"
                          : !lost.empty()  ? lost
                          : time_is_over() ? "its time was over before a case of it had run"
                                           : "an earlier failure ended the run";
  const std::lock_guard lock(mutex_);
  for (auto& job : jobs_)
    if (job.stage == JobRun::Stage::waits_to_shrink ||
        (run.interrupted && job.has_failed && job.stage != JobRun::Stage::closed))
      close_locked(job);
  for (size_t place = 0; place < jobs_.size(); ++place) {
    const auto& job = jobs_[place];
    if (!job.result) {
      run.not_finished.push_back({job.job().scenario.name, job.job().setting, why});
      continue;
    }
    if (place >= reported_) runner_.on_result(*job.result);
    run.results.push_back(*job.result);
  }
  for (auto& summary : run.jobs)
    for (const auto& each : jobs_)
      if (const Job& job = each.job();
          job.more && job.scenario.name == summary.scenario && job.setting == summary.setting)
        summary = summary_of(job);
}

}  // namespace lockstep
