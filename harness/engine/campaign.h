// The loop of `run` and `replay`: every job's cases over the lanes, each written down, played and
// judged; the first failing case of a job played again, saved, and its job stopped.
//
// A tier that breaks (TierError) makes the case inconclusive. One that is lost for good (TierLost)
// ends the campaign besides: what has no result then is not_finished, for that reason. What a
// listener or the archive throws ends the run and comes out of run().
#pragma once

#include "harness/engine/archive.h"
#include "harness/engine/evidence.h"
#include "harness/engine/slots.h"
#include "harness/engine/tally.h"

#include <atomic>
#include <exception>

namespace lockstep {

enum class AfterFailure { go_on, stop_all };

struct CampaignOptions {
  // For each play of a case. A hang costs it twice, since a failing case is played again.
  std::chrono::milliseconds deadline{std::chrono::seconds(30)};

  // Ranks alive at once over all lanes; at least 1. A larger world runs alone.
  int slots = 1;

  // `stop_all`: after the first failure of any job no further case is begun; what has no result
  // then is not_finished.
  AfterFailure after_failure = AfterFailure::go_on;

  // The file of a replayed case. Where empty, failing cases are saved to files of their own.
  std::filesystem::path case_file;
};

class Campaign {
 public:
  // `lanes` and the listeners outlive the campaign. `canaries` are jobs that must fail; each plays
  // its first case, and their plays are in the archive only.
  Campaign(std::vector<Job> jobs, std::vector<Job> canaries, CampaignOptions options,
           std::vector<std::unique_ptr<Tier>>& lanes, Archive& archive, Listener& live);

  // Once. Blocks until all is played, or until `interrupted` turns true: then every lane is stopped
  // and what has no result is not_finished. Fills results (in the order of the jobs),
  // not_finished, canary, interrupted and took of `run`. Throws what a listener threw, with every
  // lane at rest.
  void run(const std::atomic<bool>& interrupted, Run& run);

 private:
  using Clock = std::chrono::steady_clock;
  struct Playing {
    explicit Playing(Job job) : tally(std::move(job)) {}
    Tally tally;
    std::map<size_t, Evidence> evidence;  // by the index of a failing case
    std::optional<Clock::time_point> began;
    std::optional<Result> result;
  };
  struct Task {
    size_t job = 0, index = 0;
  };
  struct Played {
    History history;
    Verdict verdict;
  };

  void work(size_t lane);
  void tell_that_time_passes();
  void play_canaries(Tier& tier);
  std::optional<Task> next_task();
  void play_task(Tier& tier, const Task& task);
  void play_again(Tier& tier, Playing& playing);
  Played play_once(Tier& tier, const Job& job, size_t index, int play,
                   std::initializer_list<Listener*> listeners);
  void look_again(Tier& tier, const Job& job, size_t index, Played& played);
  void close(Playing& playing);
  void report_in_order();
  void finish(Run& run);
  void stop();
  bool stopped() const { return stopped_ || *interrupted_; }

  const CampaignOptions options_;
  std::vector<std::unique_ptr<Tier>>& lanes_;
  Archive& archive_;
  Listener& live_;
  const std::vector<Job> canaries_;

  Slots slots_;
  const std::atomic<bool>* interrupted_ = nullptr;
  std::atomic<bool> stopped_ = false;  // what is being played counts no more
  std::mutex mutex_;                   // guards all below, and the calls of both listeners
  std::condition_variable lane_ended_;
  size_t lanes_at_work_ = 0;
  std::vector<Playing> jobs_;
  size_t reported_ = 0;  // jobs whose results the listeners have
  bool hand_out_ = true;
  std::string lost_;  // why the tier is, or nothing
  Run::Canary canary_ = Run::Canary::not_played;
  std::exception_ptr broken_;
};

}  // namespace lockstep
