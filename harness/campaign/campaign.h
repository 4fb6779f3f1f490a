// The loop of `run` and `replay`: distributes every job's cases over the lanes, records, runs and
// judges each; the first failing case of a job runs again, is shrunk and saved, and its job stops.
//
// Failures are shrunk in the order of the jobs, one at a time, with the candidates of one on all
// lanes that have nothing else to run; so what is found does not depend on how many there are. A
// scenario that fails alike on one subject in several settings is shrunk in the first of them.
//
// A tier that breaks (TierError) makes the case inconclusive. A tier that is lost for good
// (TierLost) also ends the campaign: jobs without a result then are not_finished, for that reason.
// An exception of the listener ends the run and is thrown by run().
#pragma once

#include "harness/campaign/agenda.h"
#include "harness/campaign/canary.h"

#include <thread>

namespace lockstep {

class Campaign {
 public:
  // `lanes`, the archive and the listener outlive the campaign. What `canaries` run is in the
  // archive only.
  Campaign(std::vector<Job> jobs, std::vector<Canary> canaries, CampaignOptions options,
           std::vector<std::unique_ptr<Tier>>& lanes, Archive& archive, Listener& live);

  // Once. Blocks until all cases have run, or until `interrupted` turns true: then every lane is
  // stopped and jobs without a result are not_finished. Fills results (in the order of the jobs),
  // not_finished, canary, blind, interrupted and took of `run`. Throws what the listener threw,
  // with every lane at rest.
  void run(const std::atomic<bool>& interrupted, Run& run);

 private:
  std::jthread thread_for(size_t lane);
  void work(size_t lane);
  void run_canaries(size_t lane);
  void report_wait();
  void stop_lanes();

  const CampaignOptions options_;
  std::vector<std::unique_ptr<Tier>>& lanes_;
  const std::vector<Canary> canaries_;
  EarlyEnd end_;
  CaseRunner runner_;
  Agenda agenda_;

  std::mutex mutex_;
  std::condition_variable lane_ended_;
  size_t lanes_at_work_ = 0;
  // Written by the first lane.
  Run::Canary canary_ = Run::Canary::not_run;
  std::vector<std::string> blind_;
};

}  // namespace lockstep
