// One lane of a campaign: a tier, and what the thread that owns it runs there.
#pragma once

#include "harness/campaign/agenda.h"

namespace lockstep {

class CampaignLane {
 public:
  // All of them outlive it.
  CampaignLane(Tier& tier, Agenda& agenda, CaseRunner& runner)
      : tier_(tier), agenda_(agenda), runner_(runner) {}

  // Until the agenda has nothing more. Throws Interrupted, and what a listener throws.
  void work();

 private:
  void run(const Task& task);
  void run_case(const Task& task);
  FirstRun first_run(const Task& task);
  void end(JobRun& job);
  void run_again(JobRun& job, size_t culprit);
  void shrink(JobRun& job);
  void shrink(JobRun& job, size_t culprit);

  Tier& tier_;
  Agenda& agenda_;
  CaseRunner& runner_;
};

}  // namespace lockstep
