// A canary guards one kind of judgement: its cases must come out in one way, known beforehand. A
// run in which one does not has a judgement that is blind, and proves nothing. (What `run` runs is
// in harness/canaries; scenarios tagged "canary" are canaries, too.)
#pragma once

#include "harness/campaign/case_runner.h"

namespace lockstep {

struct Canary {
  std::string judgement;  // that it guards: "agreement"
  Job job;
  // The result that it must have, and the pattern of its first finding: "fail sum_not_average". The
  // empty one: any failure.
  std::string outcome = {};
  // The value of the case that shrinking its failing one must find; null: it is not shrunk.
  Json smallest = {};
};

// Runs its cases one after the other on this tier, for the archive alone. `inconclusive` where the
// tier cannot run them. Throws Interrupted, and what a listener throws.
Run::Canary run_canary(const Canary& canary, Tier& tier, CaseRunner& runner);

}  // namespace lockstep
