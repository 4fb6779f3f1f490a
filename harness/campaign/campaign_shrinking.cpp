// How a campaign shrinks: which job, and where candidates run.
#include "harness/campaign/campaign.h"
#include "harness/cases/shown_fields.h"

#include <algorithm>

namespace lockstep {

namespace {

constexpr std::chrono::milliseconds kPoll{20};
constexpr std::chrono::milliseconds kTrialLeast{2000};

std::string key_of(const Setting& setting, const std::string& scenario, const Verdict& verdict) {
  return setting.subject + "\n" + scenario + "\n" + verdict.signature();
}

// A candidate that takes longer does not show the failure, unless that is a hang.
std::chrono::milliseconds limit_of_trial(const CampaignOptions& options) {
  return std::min(options.deadline, std::max(kTrialLeast, options.shrink->time / 5));
}

}  // namespace

// The lane that shrinks plays candidates too.
class Campaign::ShrinkingOnLanes : public TrialRunner {
 public:
  ShrinkingOnLanes(Campaign& campaign, Tier& tier, const RunningJob& running, size_t culprit)
      : campaign_(campaign), tier_(tier), job_(running.tally.job()), culprit_(culprit) {}

  std::vector<std::optional<Outcome>> play(const Goal& goal, const Setting& setting,
                                           const std::vector<Case>& cases, Outcome wanted,
                                           TrialTime until) override {
    const auto batch = std::make_shared<Batch>(
        Batch{TrialList(cases, wanted), goal, setting, static_cast<int>(culprit_) + 1,
              static_cast<int>(job_.cases.size()), job_.scenario});
    std::unique_lock lock(campaign_.mutex_);
    const Posted posted(campaign_, batch);
    while (!batch->list.complete()) {
      if (ended() || now() >= until) batch->list.close();
      if (const auto index = batch->list.next()) {
        lock.unlock();
        play_own(*batch, *index);
        lock.lock();
      } else if (!batch->list.complete()) {
        campaign_.changed_.wait_for(lock, kPoll);
      }
    }
    for (auto& [hash, verdict] : batch->shown) shown_[setting.tier + hash] = verdict;
    return batch->list.outcomes();
  }

  std::optional<Story> tell(const Case& c, const Setting& setting) override {
    if (interrupted()) return {};
    const int taken = campaign_.slots_.take(ranks_alive(setting, world_size(c)));
    if (taken == 0) return {};
    try {
      const Turn turn{.c = c,
                      .setting = setting,
                      .number = static_cast<int>(culprit_) + 1,
                      .of = static_cast<int>(job_.cases.size()),
                      .is_trial = true};
      const auto played = campaign_.play_trial(
          tier_, job_.scenario, turn, {.limit = campaign_.options_.deadline, .call_sites = true});
      auto evidence = keep_evidence(tier_, campaign_.archive_.logs_for(c, setting), played.history);
      campaign_.slots_.give_back(taken);
      {
        const std::lock_guard lock(campaign_.mutex_);
        campaign_.archive_.keep({.c = c,
                                 .setting = setting,
                                 .number = turn.number,
                                 .verdict = played.verdict.kind,
                                 .history = played.history});
      }
      return Story{played.verdict, std::move(evidence)};
    } catch (const Interrupted&) {
      return {};
    }
  }

  std::optional<Verdict> shown(const Case& c, const Setting& setting) const override {
    const auto found = shown_.find(setting.tier + hash_of(c));
    return found == shown_.end() ? std::nullopt : std::optional(found->second);
  }

  // One search keeps one file: the smallest case so far. One that cannot be written replaces none.
  void keep(const Case& c, const Origin& origin) override {
    const std::lock_guard lock(campaign_.mutex_);
    const auto file = campaign_.archive_.save_failure(c, case_file(job_.scenario, {c, origin}));
    if (file.empty()) return;
    std::error_code none;
    if (!kept_.empty() && kept_ != file) std::filesystem::remove(kept_, none);
    kept_ = file;
  }

  // The smallest so far of an earlier run.
  void began_with(const std::filesystem::path& file) { kept_ = file; }

  bool interrupted() const override {
    const std::lock_guard lock(campaign_.mutex_);
    return ended();
  }

  TrialTime now() const override { return campaign_.options_.now(); }

 private:
  // While it lives, lanes find the batch; they may still play a case of it afterwards.
  struct Posted {
    Posted(Campaign& campaign, std::shared_ptr<Batch> batch) : campaign(campaign) {
      campaign.batch_ = std::move(batch);
      campaign.changed_.notify_all();
    }
    ~Posted() { campaign.batch_.reset(); }
    Posted(const Posted&) = delete;
    Posted& operator=(const Posted&) = delete;
    Campaign& campaign;
  };

  void play_own(Batch& batch, size_t index) {
    try {
      campaign_.play_candidate(tier_, batch, index);
    } catch (const Interrupted&) {
    } catch (...) {
      const std::lock_guard lock(campaign_.mutex_);
      if (!campaign_.broken_) campaign_.broken_ = std::current_exception();
      campaign_.stop();
    }
  }

  bool ended() const { return campaign_.stopped() || !campaign_.lost_.empty(); }

  Campaign& campaign_;
  Tier& tier_;
  const Job& job_;
  const size_t culprit_;
  std::map<std::string, Verdict> shown_;  // by tier and hash
  std::filesystem::path kept_;
};

// Call it with the lock held, once no case of the job is left.
void Campaign::shrink_or_close(RunningJob& running) {
  const auto culprits = running.tally.culprits();
  const bool has_failed = std::any_of(culprits.begin(), culprits.end(), [&](size_t culprit) {
    return is_failure(running.tally.verdict(culprit).kind);
  });
  if (options_.shrink && has_failed && !stopped() && lost_.empty())
    running.stage = RunningJob::Stage::waits_to_shrink;
  else
    close(running);
}

// The first job that waits, once all before it are closed. Call it with the lock held.
std::optional<size_t> Campaign::job_to_shrink() const {
  for (size_t job = 0; job < jobs_.size(); ++job) {
    const auto& running = jobs_[job];
    if (running.stage == RunningJob::Stage::waits_to_shrink) return job;
    const bool ends_without_result = !hand_out_ && running.evidence.empty() && running.plays == 0;
    if (running.stage != RunningJob::Stage::closed && !ends_without_result) return {};
  }
  return {};
}

void Campaign::shrink(Tier& tier, RunningJob& running) {
  for (const auto culprit : running.tally.culprits())
    if (is_failure(running.tally.verdict(culprit).kind)) shrink_one(tier, running, culprit);
  const std::lock_guard lock(mutex_);
  close(running);
}

void Campaign::shrink_one(Tier& tier, RunningJob& running, size_t culprit) {
  const Job& job = running.tally.job();
  FoundFailure found{.c = job.cases[culprit],
                     .setting = job.setting,
                     .verdict = running.tally.verdict(culprit),
                     .is_flaky = running.tally.flaky(culprit),
                     .origin = options_.case_origin};
  ShrinkingOnLanes lanes(*this, tier, running, culprit);
  if (culprit < job.cases.archived()) found.origin = archive_.origin_of(job.scenario, found.c);
  if (found.origin && options_.case_file.empty()) lanes.began_with(archive_.file_of(found.c));
  const auto key = key_of(job.setting, job.scenario.name, found.verdict);
  const auto known = shrunk_.find(key);
  auto smallest =
      shrink_failure(job.scenario, found, known == shrunk_.end() ? nullptr : &known->second,
                     *options_.shrink, lanes);
  if (!smallest) return;
  const std::lock_guard lock(mutex_);
  shrunk_.try_emplace(key, *smallest);
  running.smallest.emplace(culprit, std::move(*smallest));
}

void Campaign::play_candidate(Tier& tier, Batch& batch, size_t index) {
  std::optional<Outcome> outcome;
  Verdict verdict;
  const auto give_back = [&] {
    const std::lock_guard lock(mutex_);
    batch.list.played(index, outcome);
    if (outcome == Outcome::shows) batch.shown[hash_of(batch.list[index])] = verdict;
    changed_.notify_all();
  };
  try {
    std::tie(outcome, verdict) = this->outcome(tier, batch, batch.list[index]);
  } catch (...) {
    give_back();
    throw;
  }
  give_back();
}

// With the verdict of the last play.
std::pair<Outcome, Verdict> Campaign::outcome(Tier& tier, const Batch& batch, const Case& c) {
  const auto& goal = batch.goal;
  int failed = 0, passed = 0, played = 0;
  for (;;) {
    const int taken = slots_.take(ranks_alive(batch.setting, world_size(c)));
    if (taken == 0) throw Interrupted();
    const Turn turn{
        .c = c, .setting = batch.setting, .number = batch.number, .of = batch.of, .is_trial = true};
    auto run = play_trial(tier, batch.scenario, turn, {.limit = limit_of_trial(options_)});
    slots_.give_back(taken);
    ++played;
    passed += run.verdict.kind == Verdict::Kind::pass;
    failed += is_failure(run.verdict.kind) && shows_failure(run.verdict, goal.failure);
    if (failed == goal.failures) return {Outcome::shows, std::move(run.verdict)};
    if (failed + goal.plays - played < goal.failures)
      return {passed == played ? Outcome::passes : Outcome::other, std::move(run.verdict)};
  }
}

CaseRun Campaign::play_trial(Tier& tier, const Scenario& scenario, const Turn& turn,
                             const CaseRunOptions& how) {
  {
    const std::lock_guard lock(mutex_);
    for (Listener* listener : {static_cast<Listener*>(&archive_), &live_}) listener->on_case(turn);
  }
  if (stopped()) throw Interrupted();
  auto played = run_case(tier, scenario, turn.c, turn.setting, how);
  const std::lock_guard lock(mutex_);
  if (!played.lost.empty()) lost_ = played.lost;
  if (stopped()) throw Interrupted();
  for (Listener* listener : {static_cast<Listener*>(&archive_), &live_})
    listener->on_verdict(turn, played.history, played.verdict);
  return played;
}

}  // namespace lockstep
