#include "harness/campaign/case_runner.h"

#include "harness/campaign/evidence.h"

namespace lockstep {

std::vector<Listener*> CaseRunner::listeners(Audience audience) {
  if (audience == Audience::none) return {};
  if (audience == Audience::archive) return {&archive_};
  return {&archive_, &live_};
}

CaseRun CaseRunner::run(Tier& tier, const Scenario& scenario, const Turn& turn, Audience audience,
                        const CaseRunOptions& how) {
  {
    const std::lock_guard lock(mutex_);
    for (auto* listener : listeners(audience)) listener->on_case(turn);
  }
  if (end_.stopped()) throw Interrupted();
  const auto began = options_.now();
  auto run = run_case(tier, scenario, turn.c, turn.setting, how);
  const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(options_.now() - began);
  if (!run.lost.empty()) end_.lose_tier(run.lost);
  std::filesystem::path output;
  if (options_.keeps_output && audience == Audience::all && !turn.is_trial)
    output = keep_evidence(tier, archive_.logs_for(turn.c, turn.setting), run.history).logs;
  const std::lock_guard lock(mutex_);
  if (turn.run == 1 && !turn.is_trial && audience == Audience::all)
    add_slow(slowest_, {scenario.name, turn.setting, turn.number, took});
  // The keys that interrupt the runner reach its ranks too: what they did then says nothing.
  if (end_.stopped()) throw Interrupted();
  for (auto* listener : listeners(audience)) listener->on_verdict(turn, run.history, run.verdict);
  if (!output.empty()) live_.on_output(turn, output);
  return run;
}

CaseRun CaseRunner::run(Tier& tier, const Scenario& scenario, const Turn& turn, Audience audience) {
  return run(tier, scenario, turn, audience,
             {.time_limit = options_.time_limit,
              .call_sites = turn.run > 1 || !options_.case_file.empty()});
}

void CaseRunner::on_wait() {
  const std::lock_guard lock(mutex_);
  live_.on_wait();
}

void CaseRunner::on_result(const Result& result) {
  const std::lock_guard lock(mutex_);
  archive_.on_result(result);
  live_.on_result(result);
}

void CaseRunner::keep_history(const Turn& turn, const CaseRun& run) {
  const std::lock_guard lock(mutex_);
  archive_.keep({.c = turn.c,
                 .setting = turn.setting,
                 .number = turn.number,
                 .verdict = run.verdict.kind,
                 .history = run.history});
}

std::filesystem::path CaseRunner::save_failure(const Case& c, const std::string& file) {
  const std::lock_guard lock(mutex_);
  return archive_.save_failure(c, file);
}

std::vector<SlowCase> CaseRunner::slowest() const {
  const std::lock_guard lock(mutex_);
  return slowest_;
}

}  // namespace lockstep
