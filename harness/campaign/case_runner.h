// Runs a case for a lane of a campaign: announces it to the listeners, runs and judges it, and
// reports its verdict. The listeners are called by one lane at a time. Thread-safe.
#pragma once

#include "harness/archive/archive.h"
#include "harness/campaign/campaign_options.h"
#include "harness/campaign/case_run.h"
#include "harness/campaign/early_end.h"
#include "harness/campaign/slots.h"

namespace lockstep {

// The listeners that a run is reported to. A canary's is in the archive alone, and nobody needs the
// run that proves a simulated world deterministic.
enum class Audience { none, archive, all };

class CaseRunner {
 public:
  // All of them outlive it.
  CaseRunner(const CampaignOptions& options, Archive& archive, Listener& live, EarlyEnd& end)
      : options_(options), archive_(archive), live_(live), end_(end), slots_(options.slots) {}

  // Blocks until the case has ended. Throws Interrupted where the campaign is stopped, and what a
  // listener throws.
  CaseRun run(Tier& tier, const Scenario& scenario, const Turn& turn, Audience audience,
              const CaseRunOptions& how);
  // The same within the deadline of the campaign, with call sites where they are wanted.
  CaseRun run(Tier& tier, const Scenario& scenario, const Turn& turn, Audience audience);

  void on_wait();
  void on_result(const Result& result);
  void keep_history(const Turn& turn, const CaseRun& run);
  // Empty where it could not be saved.
  std::filesystem::path save_failure(const Case& c, const std::string& file);

  // For what does not write: where logs and failures lie.
  const Archive& archive() const { return archive_; }
  const CampaignOptions& options() const { return options_; }
  EarlyEnd& end() const { return end_; }
  Slots& slots() { return slots_; }
  std::vector<SlowCase> slowest() const;

 private:
  std::vector<Listener*> listeners(Audience audience);

  const CampaignOptions& options_;
  Archive& archive_;
  Listener& live_;
  EarlyEnd& end_;
  Slots slots_;
  mutable std::mutex mutex_;  // guards the calls of both listeners, and:
  std::vector<SlowCase> slowest_;
};

}  // namespace lockstep
