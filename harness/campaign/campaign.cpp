#include "harness/campaign/campaign.h"

#include "harness/campaign/campaign_lane.h"
#include "harness/process/system_limit.h"

#include <system_error>

namespace lockstep {

namespace {

constexpr std::chrono::milliseconds kInterruptPoll{20};

std::chrono::milliseconds since(std::chrono::steady_clock::time_point began) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() -
                                                               began);
}

}  // namespace

Campaign::Campaign(std::vector<Job> jobs, std::vector<Canary> canaries, CampaignOptions options,
                   std::vector<std::unique_ptr<Tier>>& lanes, Archive& archive, Listener& live)
    : options_(std::move(options)),
      lanes_(lanes),
      canaries_(std::move(canaries)),
      runner_(options_, archive, live, end_),
      agenda_(std::move(jobs), runner_) {}

void Campaign::run(const std::atomic<bool>& interrupted, Run& run) {
  const auto began = std::chrono::steady_clock::now();
  end_.watch(interrupted);
  agenda_.begin();
  {
    std::vector<std::jthread> threads;
    std::unique_lock lock(mutex_);
    for (size_t lane = 0; lane < lanes_.size() && !end_.stopped(); ++lane)
      threads.push_back(thread_for(lane));
    while (lanes_at_work_ > 0) {
      lane_ended_.wait_for(lock, kInterruptPoll);
      report_wait();
      // Repeatedly: a lane may have been about to start a case when it was stopped.
      if (end_.stopped()) stop_lanes();
    }
  }
  end_.rethrow();
  run.interrupted = end_.stopped();
  run.took = since(began);
  agenda_.finish(run);
  run.slowest = runner_.slowest();
  run.canary = canary_;
  run.blind = blind_;
}

// Call it with the lock held.
std::jthread Campaign::thread_for(size_t lane) {
  try {
    std::jthread thread([this, lane] { work(lane); });
    ++lanes_at_work_;
    return thread;
  } catch (const std::system_error& error) {
    end_.fail(std::make_exception_ptr(
        TierError("a thread for a lane could not be started: " + reason_of(error.code().value()))));
    return {};
  }
}

void Campaign::work(size_t lane) {
  try {
    if (lane == 0) run_canaries(lane);
    CampaignLane(*lanes_[lane], agenda_, runner_).work();
  } catch (const Interrupted&) {
  } catch (...) {
    end_.fail(std::current_exception());
  }
  const std::lock_guard lock(mutex_);
  --lanes_at_work_;
  lane_ended_.notify_all();
}

void Campaign::run_canaries(size_t lane) {
  for (const auto& canary : canaries_) {
    const auto outcome = run_canary(canary, *lanes_[lane], runner_);
    canary_ = worse(canary_, outcome);
    if (outcome == Run::Canary::passed) blind_.push_back(canary.judgement);
  }
}

void Campaign::report_wait() {
  if (end_.stopped()) return;
  try {
    runner_.on_wait();
  } catch (...) {
    end_.fail(std::current_exception());
  }
}

void Campaign::stop_lanes() {
  runner_.slots().close();
  agenda_.wake();
  for (auto& lane : lanes_) lane->stop();
}

}  // namespace lockstep
