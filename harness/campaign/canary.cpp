#include "harness/campaign/canary.h"

#include "harness/campaign/shrink_failure.h"

#include <map>

namespace lockstep {

namespace {

// Thrown where the tier broke.
struct NotRun {};

class CanaryRunner : public TrialRunner {
 public:
  CanaryRunner(const Job& job, Tier& tier, CaseRunner& runner)
      : job_(job), tier_(tier), runner_(runner) {}

  CaseRun run(const Case& c, const Setting& setting, int number = 1) {
    const TakenSlots slots(runner_.slots(), ranks_alive(setting, world_size(c)));
    auto run = runner_.run(tier_, job_.scenario,
                           {.c = c, .setting = setting, .number = 1, .of = 1, .run = number},
                           Audience::archive);
    if (tier_broke(run.verdict)) throw NotRun();
    return run;
  }

  std::vector<std::optional<Outcome>> run(const Goal& goal, const Setting& setting,
                                          const std::vector<Case>& cases, Outcome wanted,
                                          TrialTime until) override {
    TrialList list(cases, wanted);
    while (const auto index = list.next()) {
      if (now() >= until) return list.outcomes();
      const auto verdict = run(list[*index], setting).verdict;
      const bool shows = shows_failure(verdict, goal.failure);
      if (shows) shown_[hash_of(list[*index])] = verdict;
      list.record(*index, shows                                 ? Outcome::shows
                          : verdict.kind == Verdict::Kind::pass ? Outcome::passes
                                                                : Outcome::other);
    }
    return list.outcomes();
  }
  std::optional<Story> tell(const Case& c, const Setting& setting) override {
    return Story{run(c, setting).verdict, {}};
  }
  std::optional<Verdict> shown(const Case& c, const Setting&) const override {
    const auto found = shown_.find(hash_of(c));
    return found == shown_.end() ? std::nullopt : std::optional(found->second);
  }
  void keep(const Case&, const Origin&) override {}
  bool interrupted() const override { return runner_.end().reached(); }
  TrialTime now() const override { return runner_.options().now(); }

 private:
  const Job& job_;
  Tier& tier_;
  CaseRunner& runner_;
  std::map<std::string, Verdict> shown_;  // by the hash of the case
};

Result result_of(const Job& job, CanaryRunner& runner) {
  Tally tally(job);
  while (const auto index = tally.next()) {
    const Case c = job.cases[*index];
    auto run = runner.run(c, job.setting);
    if (wants_replay(job, *index, run.verdict))
      run = with_replay(std::move(run), runner.run(c, job.setting, 2));
    tally.record(*index, run.verdict);
  }
  return tally.result();
}

std::string outcome_of(const Result& result) {
  const std::string kind(name_of(result.kind));
  const auto& findings = result.worst.findings;
  return findings.empty() || findings.front().pattern.empty()
             ? kind
             : kind + " " + findings.front().pattern;
}

bool is_shrunk_to(const Json& smallest, const Job& job, const Result& result,
                  CanaryRunner& runner) {
  const FoundFailure found{.c = result.failure->c, .setting = job.setting, .verdict = result.worst};
  // It is over in a moment; on a machine that is busy the search must not be cut short.
  const ShrinkOptions patient{.time = std::chrono::minutes(10)};
  const auto shrunk = shrink_failure(job.scenario, found, nullptr, patient, runner);
  return shrunk && shrunk->c == job.scenario.parse(smallest);
}

}  // namespace

Run::Canary run_canary(const Canary& canary, Tier& tier, CaseRunner& runner) try {
  CanaryRunner trials(canary.job, tier, runner);
  const auto result = result_of(canary.job, trials);
  if (canary.outcome.empty()) {
    if (is_failure(result.kind)) return Run::Canary::failed;
    return result.kind == Result::Kind::pass ? Run::Canary::passed : Run::Canary::inconclusive;
  }
  const bool came_out =
      outcome_of(result) == canary.outcome &&
      (canary.smallest.is_null() || is_shrunk_to(canary.smallest, canary.job, result, trials));
  return came_out ? Run::Canary::failed : Run::Canary::passed;
} catch (const NotRun&) {
  return Run::Canary::inconclusive;
}

}  // namespace lockstep
