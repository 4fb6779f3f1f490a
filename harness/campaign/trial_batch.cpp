#include "harness/campaign/trial_batch.h"

#include <algorithm>

namespace lockstep {

namespace {

constexpr std::chrono::milliseconds kPoll{20};
constexpr std::chrono::milliseconds kTrialLeast{2000};

// A candidate that takes longer does not show the failure, unless that is a hang.
std::chrono::milliseconds limit_of_trial(const CampaignOptions& options) {
  return std::min(options.time_limit, std::max(kTrialLeast, options.shrink->time / 5));
}

}  // namespace

std::optional<size_t> TrialBatch::next() {
  const std::lock_guard lock(mutex_);
  return list_.next();
}

void TrialBatch::close() {
  const std::lock_guard lock(mutex_);
  list_.close();
}

bool TrialBatch::wait() {
  std::unique_lock lock(mutex_);
  if (!list_.complete()) changed_.wait_for(lock, kPoll);
  return !list_.complete();
}

std::vector<std::optional<Outcome>> TrialBatch::outcomes() const {
  const std::lock_guard lock(mutex_);
  return list_.outcomes();
}

std::map<std::string, Verdict> TrialBatch::shown() const {
  const std::lock_guard lock(mutex_);
  return shown_;
}

void TrialBatch::run(size_t index, Tier& tier, CaseRunner& runner) {
  std::optional<Outcome> found;
  Verdict verdict;
  const auto give_back = [&] {
    const std::lock_guard lock(mutex_);
    list_.record(index, found);
    if (found == Outcome::shows) shown_[hash_of(list_[index])] = verdict;
    changed_.notify_all();
  };
  try {
    std::tie(found, verdict) = outcome(list_[index], tier, runner);
  } catch (...) {
    give_back();
    throw;
  }
  give_back();
}

// With the verdict of the last run.
std::pair<Outcome, Verdict> TrialBatch::outcome(const Case& c, Tier& tier,
                                                CaseRunner& runner) const {
  int failed = 0, passed = 0, runs = 0;
  for (;;) {
    const Turn turn{.c = c, .setting = setting_, .number = number_, .of = of_, .is_trial = true};
    auto run = [&] {
      const TakenSlots slots(runner.slots(), ranks_alive(setting_, world_size(c)));
      return runner.run(tier, scenario_, turn, Audience::all,
                        {.time_limit = limit_of_trial(runner.options())});
    }();
    ++runs;
    passed += run.verdict.kind == Verdict::Kind::pass;
    failed += is_failure(run.verdict.kind) && shows_failure(run.verdict, goal_.failure);
    if (failed == goal_.failures) return {Outcome::shows, std::move(run.verdict)};
    if (failed + goal_.runs - runs < goal_.failures)
      return {passed == runs ? Outcome::passes : Outcome::other, std::move(run.verdict)};
  }
}

}  // namespace lockstep
