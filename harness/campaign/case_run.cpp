#include "harness/campaign/case_run.h"

#include "harness/base/text.h"

#include <algorithm>

namespace lockstep {

namespace {

constexpr char kTierBroke[] = "tier_broke";
constexpr size_t kReplayEvery = 16;

Verdict broken_tier(const std::string& why) {
  Finding broke{"The tier must run the case", kTierBroke, "", why};
  keep_first_line(broke);
  return {Verdict::Kind::inconclusive, {std::move(broke)}};
}

Verdict not_repeatable() {
  return {Verdict::Kind::fail,
          {{"The same case must give the same history in a simulated world", "not_repeatable", "",
            "run again, the ranks recorded something else: what they do depends on more than "
            "the case (a clock, an address, what an earlier case left)"}}};
}

// The story says which schedule of many it was that failed.
void name_schedule(const SchedulesTried& tried, Verdict& verdict) {
  if (tried.count == 0 || !is_failure(verdict.kind) || verdict.findings.empty()) return;
  verdict.findings.front().diagnosis += " (schedule " + with_commas(tried.count) +
                                        ": world.schedule.choices " + Json(tried.choices).dump() +
                                        ")";
}

}  // namespace

CaseRun run_case(Tier& tier, const Scenario& scenario, const Case& c, const Setting& setting,
                 const CaseRunOptions& options) {
  CaseRun run;
  if (auto refusal = refusal_of(scenario, c)) return {.history = {}, .verdict = *refusal};
  try {
    run.history = tier.run(scenario, c, setting, options);
    run.verdict = judge(scenario, c, run.history);
    name_schedule(run.history.schedules(), run.verdict);
  } catch (const TierLost& error) {
    run.verdict = broken_tier(error.what());
    run.lost = error.what();
  } catch (const TierError& error) {
    run.verdict = broken_tier(error.what());
  }
  return run;
}

bool tier_broke(const Verdict& verdict) {
  return !verdict.findings.empty() && verdict.findings.front().pattern == kTierBroke;
}

// A hang costs a whole deadline each time.
int runs_wanted(Verdict::Kind kind) {
  return kind == Verdict::Kind::hang ? 2 : 3;
}

bool wants_replay(const Job& job, size_t index, const Verdict& first) {
  return traits_of(job.setting).is_deterministic && index % kReplayEvery == 0 &&
         first.kind == Verdict::Kind::pass;
}

// A tier that breaks at the second run has said nothing against the first.
CaseRun with_replay(CaseRun first, CaseRun second) {
  if (tier_broke(second.verdict)) return first;
  if (second.verdict.kind != Verdict::Kind::pass) return second;
  if (hash_of(second.history) != hash_of(first.history)) first.verdict = not_repeatable();
  return first;
}

int ranks_alive(const Setting& setting, int world_size) {
  return traits_of(setting).ranks_are_processes ? world_size : 1;
}

int ranks_alive(const Job& job, size_t index) {
  return ranks_alive(job.setting, job.cases.world_size(index));
}

}  // namespace lockstep
