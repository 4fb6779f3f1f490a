#include "harness/campaign/campaign_lane.h"

#include "harness/campaign/lane_trials.h"

namespace lockstep {

namespace {

std::string key_of(const Setting& setting, const std::string& scenario, const Verdict& verdict) {
  return setting.subject + "\n" + scenario + "\n" + verdict.signature();
}

Turn turn_of(const Job& job, const Case& c, size_t index, const CaseList& cases,
             int number_of_run) {
  return {.c = c,
          .setting = job.setting,
          .number = static_cast<int>(index) + 1,
          .of = static_cast<int>(cases.size()),
          .run = number_of_run};
}

// While it lives, the lane has something to do that may leave something to others.
class AtWork {
 public:
  explicit AtWork(Agenda& agenda) : agenda_(agenda) {}
  ~AtWork() { agenda_.done(); }
  AtWork(const AtWork&) = delete;
  AtWork& operator=(const AtWork&) = delete;

 private:
  Agenda& agenda_;
};

// While it lives, time counts as the job's: a case runs, and has its slots.
class RunTime {
 public:
  RunTime(Agenda& agenda, JobRun& job) : agenda_(agenda), job_(job) { agenda_.begin_run(job_); }
  ~RunTime() { agenda_.end_run(job_); }
  RunTime(const RunTime&) = delete;
  RunTime& operator=(const RunTime&) = delete;

 private:
  Agenda& agenda_;
  JobRun& job_;
};

}  // namespace

void CampaignLane::work() {
  while (const auto task = agenda_.next()) {
    const AtWork busy(agenda_);
    run(*task);
  }
}

void CampaignLane::run(const Task& task) {
  switch (task.kind) {
    case Task::Kind::candidate:
      return task.batch->run(task.index, tier_, runner_);
    case Task::Kind::shrinks:
      return shrink(*task.job);
    case Task::Kind::ends:
      return end(*task.job);
    case Task::Kind::runs:
      return run_case(task);
  }
}

void CampaignLane::run_case(const Task& task) {
  {
    const TakenSlots slots(runner_.slots(),
                           ranks_alive(task.job->job().setting, task.cases.world_size(task.index)));
    if (agenda_.is_wanted(task)) agenda_.returned(task, first_run(task));
  }
  if (agenda_.ends(*task.job)) end(*task.job);
}

// With the evidence of a failure that may be reported.
FirstRun CampaignLane::first_run(const Task& task) {
  const RunTime time(agenda_, *task.job);
  const Job& job = task.job->job();
  const Case c = task.cases[task.index];
  const auto run = [&](int number, Audience audience) {
    return runner_.run(tier_, job.scenario, turn_of(job, c, task.index, task.cases, number),
                       audience);
  };
  auto found = run(1, Audience::all);
  if (wants_replay(job, task.index, found.verdict))
    found = with_replay(std::move(found), run(2, Audience::none));
  int passes = 0;
  while (found.verdict.kind == Verdict::Kind::pass && passes + 1 < runner_.options().repeat &&
         !agenda_.time_is_over()) {
    ++passes;
    found = run(passes + 1, Audience::all);
  }
  FirstRun first{
      .verdict = found.verdict, .passes = passes, .schedules = found.history.schedules()};
  const bool is_shown = is_failure(found.verdict.kind) &&
                        agenda_.may_be_reported(*task.job, task.index, found.verdict);
  if (is_shown)
    first.evidence =
        keep_evidence(tier_, runner_.archive().logs_for(c, job.setting), found.history);
  if (is_shown || (found.verdict.kind == Verdict::Kind::pass && task.job->shown == task.index))
    runner_.keep_history(turn_of(job, c, task.index, task.cases, 1), found);
  return first;
}

// Its cases have all come back.
void CampaignLane::end(JobRun& job) {
  for (const auto culprit : job.tally.culprits())
    if (is_failure(job.tally.verdict(culprit).kind)) run_again(job, culprit);
  agenda_.ended(job);
}

void CampaignLane::run_again(JobRun& running, size_t culprit) {
  const Job& job = running.job();
  const Case c = job.cases[culprit];
  const int first = running.tally.passes(culprit) + 1;
  const int last = first + runs_wanted(running.tally.verdict(culprit).kind) - 1;
  for (int number = first + 1; number <= last; ++number) {
    const TakenSlots slots(runner_.slots(), ranks_alive(job, culprit));
    const RunTime time(agenda_, running);
    auto again = runner_.run(tier_, job.scenario, turn_of(job, c, culprit, job.cases, number),
                             Audience::all);
    // Its evidence gets the call sites that the first run of some tiers lacks.
    if (number == first + 1 && !traits_of(job.setting).has_call_sites &&
        is_failure(again.verdict.kind))
      running.evidence[culprit] =
          keep_evidence(tier_, runner_.archive().logs_for(c, job.setting), again.history);
    if (!tier_broke(again.verdict)) running.tally.record_again(culprit, std::move(again.verdict));
  }
}

void CampaignLane::shrink(JobRun& job) {
  for (const auto culprit : job.tally.culprits())
    if (is_failure(job.tally.verdict(culprit).kind)) shrink(job, culprit);
  agenda_.close(job);
}

void CampaignLane::shrink(JobRun& running, size_t culprit) {
  const Job& job = running.job();
  const auto& options = runner_.options();
  FoundFailure found{.c = job.cases[culprit],
                     .setting = job.setting,
                     .verdict = running.tally.verdict(culprit),
                     .is_flaky = running.tally.flaky(culprit),
                     .origin = options.case_origin};
  LaneTrials trials(tier_, agenda_, runner_, job, culprit);
  if (culprit < job.cases.archived())
    found.origin = runner_.archive().origin_of(job.scenario, found.c);
  if (found.origin && options.case_file.empty())
    trials.began_with(runner_.archive().file_of(found.c));
  const auto key = key_of(job.setting, job.scenario.name, found.verdict);
  auto smallest =
      shrink_failure(job.scenario, found, agenda_.smallest(key), *options.shrink, trials);
  if (smallest) agenda_.keep_smallest(running, culprit, key, std::move(*smallest));
}

}  // namespace lockstep
