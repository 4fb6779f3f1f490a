#include "harness/campaign/campaign.h"

#include "harness/process/system_limit.h"

#include <system_error>
#include <utility>

namespace lockstep {

namespace {

constexpr std::chrono::milliseconds kInterruptPoll{20};

Run::Canary canary_outcome(Verdict::Kind kind) {
  if (is_failure(kind)) return Run::Canary::failed;
  return kind == Verdict::Kind::pass ? Run::Canary::passed : Run::Canary::inconclusive;
}

std::chrono::milliseconds since(std::chrono::steady_clock::time_point began) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() -
                                                               began);
}

}  // namespace

Campaign::Campaign(std::vector<Job> jobs, std::vector<Job> canaries, CampaignOptions options,
                   std::vector<std::unique_ptr<Tier>>& lanes, RunArchive& archive, Listener& live)
    : options_(options),
      lanes_(lanes),
      archive_(archive),
      live_(live),
      canaries_(std::move(canaries)),
      slots_(options.slots) {
  for (auto& job : jobs) jobs_.emplace_back(std::move(job), options_.after_failure);
  choose_shown_passes();
}

// While it lives, a lane has something to do that may leave something to others.
class Campaign::Busy {
 public:
  explicit Busy(Campaign& campaign) : campaign_(campaign) {}
  ~Busy() {
    const std::lock_guard lock(campaign_.mutex_);
    --campaign_.lanes_busy_;
    campaign_.changed_.notify_all();
  }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;

 private:
  Campaign& campaign_;
};

// While it lives, time counts as the job's: a case runs, and has its slots.
class Campaign::PlayTime {
 public:
  PlayTime(Campaign& campaign, RunningJob& running) : campaign_(campaign), playing_(running) {
    const std::lock_guard lock(campaign_.mutex_);
    if (playing_.plays++ == 0) playing_.since = campaign_.options_.now();
  }
  ~PlayTime() {
    const std::lock_guard lock(campaign_.mutex_);
    if (--playing_.plays == 0) playing_.took += campaign_.options_.now() - playing_.since;
  }
  PlayTime(const PlayTime&) = delete;
  PlayTime& operator=(const PlayTime&) = delete;

 private:
  Campaign& campaign_;
  RunningJob& playing_;
};

void Campaign::run(const std::atomic<bool>& interrupted, Run& run) {
  const auto began = Clock::now();
  interrupted_ = &interrupted;
  began_ = options_.now();
  for (auto& running : jobs_)
    if (running.tally.complete() && !may_grow(running)) close(running);
  std::vector<std::jthread> threads;
  std::unique_lock lock(mutex_);
  for (size_t lane = 0; lane < lanes_.size() && !broken_; ++lane)
    threads.push_back(thread_for(lane));
  while (lanes_at_work_ > 0) {
    lane_ended_.wait_for(lock, kInterruptPoll);
    if (interrupted) stop();
    tell_that_time_passes();
    // Repeatedly: a lane may have been about to start a case when it was stopped.
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

// Call it with the lock held.
std::jthread Campaign::thread_for(size_t lane) {
  try {
    std::jthread thread([this, lane] { work(lane); });
    ++lanes_at_work_;
    return thread;
  } catch (const std::system_error& error) {
    broken_ = std::make_exception_ptr(
        TierError("a thread for a lane could not be started: " + reason_of(error.code().value())));
    stop();
    return {};
  }
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
  changed_.notify_all();
}

void Campaign::work(size_t lane) {
  try {
    if (lane == 0) play_canaries(*lanes_[lane]);
    while (const auto task = next_task()) {
      const Busy busy(*this);
      play(*lanes_[lane], *task);
    }
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

void Campaign::play(Tier& tier, const Task& task) {
  switch (task.kind) {
    case Task::Kind::candidate:
      return play_candidate(tier, *task.batch, task.index);
    case Task::Kind::shrinks:
      return shrink(tier, jobs_[task.job]);
    case Task::Kind::ends:
      return end_job(tier, jobs_[task.job]);
    case Task::Kind::plays:
      return play_case(tier, task);
  }
}

void Campaign::play_case(Tier& tier, const Task& task) {
  RunningJob& running = jobs_[task.job];
  std::unique_lock lock(mutex_);
  const int ranks = ranks_alive(running.tally.job(), task.index);
  lock.unlock();
  const int taken = slots_.take(ranks);
  lock.lock();
  if (taken == 0) throw Interrupted();
  if (!running.tally.worth_playing(task.index)) {
    slots_.give_back(taken);
    running.tally.dropped(task.index);
  } else {
    lock.unlock();
    auto [verdict, passes, schedules, evidence] = play_first(tier, running, task.index);
    slots_.give_back(taken);
    lock.lock();
    if (evidence) running.evidence[task.index] = std::move(*evidence);
    if (is_failure(verdict.kind) && !std::exchange(running.has_failed, true) &&
        ++failed_ >= options_.failures_most && options_.after_failure == AfterFailure::stop_all)
      hand_out_ = false;
    running.tally.tried_schedules(task.index, schedules);
    running.tally.played(task.index, std::move(verdict), passes);
    if (!lost_.empty()) running.tally.hand_out_no_more();
  }
  // Only the lane that returned the last case comes here with the tally complete.
  if (!running.tally.complete() || may_grow(running)) return;
  if (!running.tally.any_played() || running.stage != RunningJob::Stage::playing) return;
  running.stage = RunningJob::Stage::ends;
  lock.unlock();
  end_job(tier, running);
}

// Ends a job whose cases have all come back.
void Campaign::end_job(Tier& tier, RunningJob& running) {
  for (const auto culprit : running.tally.culprits())
    if (is_failure(running.tally.verdict(culprit).kind)) play_again(tier, running, culprit);
  const std::lock_guard lock(mutex_);
  shrink_or_close(running);
}

// The evidence of a failure that may be reported.
Campaign::First Campaign::play_first(Tier& tier, RunningJob& running, size_t index) {
  const PlayTime time(*this, running);
  const Job& job = running.tally.job();
  auto played = play_once(tier, job, index, 1, {&archive_, &live_});
  if (wants_replay(job, index, played.verdict))
    played = with_replay(std::move(played), play_once(tier, job, index, 2, {}));
  int passes = 0;
  while (played.verdict.kind == Verdict::Kind::pass && passes + 1 < options_.repeat &&
         !time_is_over()) {
    ++passes;
    played = play_once(tier, job, index, passes + 1, {&archive_, &live_});
  }
  First first{.verdict = played.verdict, .passes = passes, .schedules = played.history.schedules()};
  const bool is_shown =
      is_failure(played.verdict.kind) && may_be_reported(running, index, played.verdict);
  if (is_shown)
    first.evidence =
        keep_evidence(tier, archive_.logs_for(cases_of(job)[index], job.setting), played.history);
  if (is_shown || (played.verdict.kind == Verdict::Kind::pass && running.shown == index))
    keep_history(running, index, played);
  return first;
}

// Another lane may let them grow.
CaseList Campaign::cases_of(const Job& job) {
  const std::lock_guard lock(mutex_);
  return job.cases;
}

bool Campaign::may_be_reported(const RunningJob& running, size_t index, const Verdict& verdict) {
  const std::lock_guard lock(mutex_);
  return running.tally.is_first_of_its_signature(index, verdict);
}

void Campaign::play_again(Tier& tier, RunningJob& running, size_t culprit) {
  const Job& job = running.tally.job();
  const int first = running.tally.passes(culprit) + 1;
  const int last = first + plays_wanted(running.tally.verdict(culprit).kind) - 1;
  for (int play = first + 1; play <= last; ++play) {
    const int taken = slots_.take(ranks_alive(job, culprit));
    if (taken == 0) throw Interrupted();
    std::optional<PlayTime> time(std::in_place, *this, running);
    auto played = play_once(tier, job, culprit, play, {&archive_, &live_});
    // Its evidence gets the call sites that the first run of some tiers lacks.
    if (play == first + 1 && !traits_of(job.setting).has_call_sites &&
        is_failure(played.verdict.kind))
      running.evidence[culprit] =
          keep_evidence(tier, archive_.logs_for(job.cases[culprit], job.setting), played.history);
    time.reset();
    slots_.give_back(taken);
    if (!tier_broke(played.verdict)) running.tally.played_again(culprit, std::move(played.verdict));
  }
}

CaseRun Campaign::play_once(Tier& tier, const Job& job, size_t index, int play,
                            std::initializer_list<Listener*> listeners) {
  const auto cases = cases_of(job);
  const Case c = cases[index];
  const Turn turn{.c = c,
                  .setting = job.setting,
                  .number = static_cast<int>(index) + 1,
                  .of = static_cast<int>(cases.size()),
                  .play = play};
  {
    const std::lock_guard lock(mutex_);
    for (auto* listener : listeners) listener->on_case(turn);
  }
  if (stopped()) throw Interrupted();
  const auto began = options_.now();
  auto played =
      run_case(tier, job.scenario, turn.c, turn.setting,
               {.limit = options_.deadline, .call_sites = play > 1 || !options_.case_file.empty()});
  const auto took = options_.now() - began;
  const std::lock_guard lock(mutex_);
  // Canaries are recorded in the archive only.
  if (play == 1 && listeners.size() > 1)
    add_slow(slowest_, {job.scenario.name, job.setting, turn.number,
                        std::chrono::duration_cast<std::chrono::milliseconds>(took)});
  if (!played.lost.empty()) lost_ = played.lost;
  // The keys that interrupt the runner reach its ranks too: what they did then says nothing.
  if (stopped()) throw Interrupted();
  for (auto* listener : listeners) listener->on_verdict(turn, played.history, played.verdict);
  return played;
}

}  // namespace lockstep
