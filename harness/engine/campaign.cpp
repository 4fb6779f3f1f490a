#include "harness/engine/campaign.h"

#include <thread>

namespace lockstep {

namespace {

constexpr std::chrono::milliseconds kInterruptPoll{20};
constexpr char kTierBroke[] = "tier_broke";

// A failing case is played this often in all. A hang costs a whole deadline each time.
int plays_wanted(Verdict::Kind kind) {
  return kind == Verdict::Kind::hang ? 2 : 3;
}

Verdict broken_tier(const std::string& why) {
  return {Verdict::Kind::inconclusive, {{"The tier must play the case", kTierBroke, "", why}}};
}

bool tier_broke(const Verdict& verdict) {
  return !verdict.findings.empty() && verdict.findings.front().pattern == kTierBroke;
}

Run::Canary canary_outcome(Verdict::Kind kind) {
  if (is_failure(kind)) return Run::Canary::failed;
  return kind == Verdict::Kind::pass ? Run::Canary::passed : Run::Canary::inconclusive;
}

std::chrono::milliseconds since(std::chrono::steady_clock::time_point began) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() -
                                                               began);
}

// A simulated world is the same world again: one case in so many is played a second time to see.
constexpr size_t kCasesPerSecondLook = 16;

Verdict not_repeatable() {
  return {Verdict::Kind::fail,
          {{"The same case must give the same history in a simulated world", "not_repeatable", "",
            "played again, the ranks recorded something else: what they do depends on more than "
            "the case (a clock, an address, what an earlier case left)"}}};
}

// The ranks that are alive at once; of simulated ones it is one.
int ranks_alive(const Job& job, size_t index) {
  return job.setting.tier == "sim" ? 1 : world_size(job.cases[index]);
}

}  // namespace

Campaign::Campaign(std::vector<Job> jobs, std::vector<Job> canaries, CampaignOptions options,
                   std::vector<std::unique_ptr<Tier>>& lanes, Archive& archive, Listener& live)
    : options_(options),
      lanes_(lanes),
      archive_(archive),
      live_(live),
      canaries_(std::move(canaries)),
      slots_(options.slots) {
  for (auto& job : jobs) jobs_.emplace_back(std::move(job));
}

void Campaign::run(const std::atomic<bool>& interrupted, Run& run) {
  const auto began = Clock::now();
  interrupted_ = &interrupted;
  for (auto& playing : jobs_)
    if (playing.tally.complete()) close(playing);
  std::vector<std::jthread> threads;
  std::unique_lock lock(mutex_);
  lanes_at_work_ = lanes_.size();
  for (size_t lane = 0; lane < lanes_.size(); ++lane)
    threads.emplace_back([this, lane] { work(lane); });
  while (lanes_at_work_ > 0) {
    lane_ended_.wait_for(lock, kInterruptPoll);
    if (interrupted) stop();
    tell_that_time_passes();
    // Again and again: a lane may have been on its way into a case when it was stopped.
    if (stopped_)
      for (auto& lane : lanes_) lane->stop();
  }
  lock.unlock();
  threads.clear();
  if (broken_) std::rethrow_exception(broken_);
  run.interrupted = stopped_;
  run.took = since(began);
  finish(run);
}

void Campaign::tell_that_time_passes() {
  if (stopped_) return;
  try {
    live_.on_wait();
  } catch (...) {
    broken_ = std::current_exception();
    stop();
  }
}

void Campaign::stop() {
  stopped_ = true;
  slots_.close();
}

void Campaign::work(size_t lane) {
  try {
    if (lane == 0) play_canaries(*lanes_[lane]);
    while (const auto task = next_task()) play_task(*lanes_[lane], *task);
  } catch (const Interrupted&) {
  } catch (...) {
    const std::lock_guard lock(mutex_);
    if (!broken_) broken_ = std::current_exception();
    stop();
  }
  const std::lock_guard lock(mutex_);
  --lanes_at_work_;
  lane_ended_.notify_all();
}

void Campaign::play_canaries(Tier& tier) {
  for (const auto& canary : canaries_) {
    const int taken = slots_.take(ranks_alive(canary, 0));
    if (taken == 0) throw Interrupted();
    const auto played = play_once(tier, canary, 0, 1, {&archive_});
    slots_.give_back(taken);
    const std::lock_guard lock(mutex_);
    canary_ = worse(canary_, canary_outcome(played.verdict.kind));
  }
}

std::optional<Campaign::Task> Campaign::next_task() {
  const std::lock_guard lock(mutex_);
  if (stopped_ || !lost_.empty()) return {};
  for (size_t job = 0; job < jobs_.size(); ++job) {
    // Cases of lower numbers still decide the result of a job that has failed.
    if (!hand_out_ && jobs_[job].evidence.empty()) continue;
    if (const auto index = jobs_[job].tally.next()) {
      if (!jobs_[job].began) jobs_[job].began = Clock::now();
      return Task{job, *index};
    }
  }
  return {};
}

void Campaign::play_task(Tier& tier, const Task& task) {
  Playing& playing = jobs_[task.job];
  const Job& job = playing.tally.job();
  const int taken = slots_.take(ranks_alive(job, task.index));
  std::unique_lock lock(mutex_);
  if (taken == 0) throw Interrupted();
  if (!playing.tally.worth_playing(task.index)) {
    slots_.give_back(taken);
    playing.tally.dropped(task.index);
  } else {
    lock.unlock();
    auto played = play_once(tier, job, task.index, 1, {&archive_, &live_});
    if (job.setting.tier == "sim" && task.index % kCasesPerSecondLook == 0 &&
        played.verdict.kind == Verdict::Kind::pass)
      look_again(tier, job, task.index, played);
    Evidence evidence;
    if (is_failure(played.verdict.kind))
      evidence = keep_evidence(tier, archive_.logs_for(job.cases[task.index], job.setting),
                               played.history);
    slots_.give_back(taken);
    lock.lock();
    if (is_failure(played.verdict.kind)) {
      playing.evidence[task.index] = std::move(evidence);
      if (options_.after_failure == AfterFailure::stop_all) hand_out_ = false;
    }
    playing.tally.played(task.index, std::move(played.verdict));
    if (!lost_.empty()) playing.tally.hand_out_no_more();
  }
  // Only the lane that brought the last case back comes here with the tally complete.
  if (!playing.tally.complete()) return;
  lock.unlock();
  play_again(tier, playing);
  lock.lock();
  close(playing);
}

void Campaign::play_again(Tier& tier, Playing& playing) {
  const auto culprit = playing.tally.culprit();
  if (!culprit || !is_failure(playing.tally.verdict(*culprit).kind)) return;
  const Job& job = playing.tally.job();
  const int plays = plays_wanted(playing.tally.verdict(*culprit).kind);
  for (int play = 2; play <= plays && !playing.tally.flaky(); ++play) {
    const int taken = slots_.take(ranks_alive(job, *culprit));
    if (taken == 0) throw Interrupted();
    auto played = play_once(tier, job, *culprit, play, {&archive_, &live_});
    // A simulated world's first play had no call sites.
    if (play == 2 && job.setting.tier == "sim" && is_failure(played.verdict.kind))
      playing.evidence[*culprit] =
          keep_evidence(tier, archive_.logs_for(job.cases[*culprit], job.setting), played.history);
    slots_.give_back(taken);
    if (!tier_broke(played.verdict)) playing.tally.played_again(std::move(played.verdict));
  }
}

// A tier that breaks at the second play has said nothing against the first.
void Campaign::look_again(Tier& tier, const Job& job, size_t index, Played& played) {
  auto again = play_once(tier, job, index, 2, {});
  if (tier_broke(again.verdict)) return;
  if (again.verdict.kind != Verdict::Kind::pass)
    played = std::move(again);
  else if (hash_of(again.history) != hash_of(played.history))
    played.verdict = not_repeatable();
}

Campaign::Played Campaign::play_once(Tier& tier, const Job& job, size_t index, int play,
                                     std::initializer_list<Listener*> listeners) {
  const Turn turn{.c = job.cases[index],
                  .setting = job.setting,
                  .number = static_cast<int>(index) + 1,
                  .of = static_cast<int>(job.cases.size()),
                  .play = play};
  {
    const std::lock_guard lock(mutex_);
    for (auto* listener : listeners) listener->on_case(turn);
  }
  if (stopped()) throw Interrupted();
  Played played;
  try {
    played.history = tier.play(
        job.scenario, turn.c, turn.setting,
        {.limit = options_.deadline, .call_sites = play > 1 || !options_.case_file.empty()});
    played.verdict = judge(job.scenario, turn.c, played.history);
  } catch (const TierLost& error) {
    played.verdict = broken_tier(error.what());
    const std::lock_guard lock(mutex_);
    lost_ = error.what();
  } catch (const TierError& error) {
    played.verdict = broken_tier(error.what());
  }
  // The keys that interrupt the runner reach its ranks too: what they did then says nothing.
  if (stopped()) throw Interrupted();
  const std::lock_guard lock(mutex_);
  for (auto* listener : listeners) listener->on_verdict(turn, played.history, played.verdict);
  return played;
}

void Campaign::close(Playing& playing) {
  Result result = playing.tally.result();
  if (playing.began) result.took = since(*playing.began);
  if (result.failure) {
    result.failure->case_file = options_.case_file;
    if (is_failure(result.kind) && options_.case_file.empty())
      result.failure->case_file = archive_.save_failure(result.failure->c);
    const auto& evidence = playing.evidence[*playing.tally.culprit()];
    result.failure->logs = evidence.logs;
    result.failure->tail_rank = evidence.tail_rank;
    result.failure->tail = evidence.tail;
    result.failure->tail_file = evidence.tail_file;
    result.failure->call_sites = evidence.call_sites;
  }
  playing.result = std::move(result);
  report_in_order();
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
                                           : "an earlier failure ended the run";
  for (size_t job = 0; job < jobs_.size(); ++job) {
    const auto& playing = jobs_[job];
    if (!playing.result) {
      const Job& unfinished = playing.tally.job();
      run.not_finished.push_back({unfinished.scenario.name, unfinished.setting, why});
      continue;
    }
    if (job >= reported_) {
      archive_.on_result(*playing.result);
      live_.on_result(*playing.result);
    }
    run.results.push_back(*playing.result);
  }
  run.canary = canary_;
}

}  // namespace lockstep
