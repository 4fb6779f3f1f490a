// Strikes a rank with the injections of its case: the only place that does.
#pragma once

#include "harness/base/case.h"

#include <chrono>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <vector>

namespace lockstep {

class RecordWriter;

// An injected "throw" throws this.
struct InjectedError : std::runtime_error {
  using runtime_error::runtime_error;
};

// How each injection strikes: in a rank's process, or in a rank's thread of a simulated world.
struct PlannedFailures {
  std::function<void(std::chrono::milliseconds)> delay;
  std::function<void()> kill, stop;
  std::function<void(int status)> exit;
};
PlannedFailures fault_actions_of_this_process();

// The effect of an injection on a collective.
struct CollectiveFault {
  enum class Kind { carried, failed, dropped, duplicated, corrupted };
  Kind kind = Kind::carried;
  int bit = 0;                           // of a corrupted one
  std::chrono::milliseconds late_by{0};  // its result on a device
};

// Local. Each injection strikes once, as base/case.h lists them, and is recorded first.
class Injector {
 public:
  // `journal` outlives the injector. Injections of `all` for other ranks are left out.
  Injector(const std::vector<Injection>& all, int rank, RecordWriter& journal,
           PlannedFailures planned_failures = fault_actions_of_this_process());

  // Called before the rank issues collective `sequence`, and as it enters `moment`. Any thread.
  // Throws InjectedError.
  CollectiveFault at_collective(int64_t sequence);
  void at_moment(const Moment& moment);

 private:
  template <class Matches>
  void strike_where(const Matches& matches);
  void strike(const Injection& injection);

  std::mutex mutex_;  // guards what follows
  std::vector<Injection> planted_;
  CollectiveFault next_;                 // of the next collective
  std::chrono::milliseconds slow_by_{};  // before each collective
  std::chrono::milliseconds late_by_{};  // each collective's result
  RecordWriter& journal_;
  const PlannedFailures planned_failures_;
};

}  // namespace lockstep
