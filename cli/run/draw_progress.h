// Progress while the cases of a run are drawn, which takes long for many cases.
#pragma once

#include "cli/interrupt.h"
#include "cli/run/status_line.h"

namespace lockstep::cli {

class DrawProgress {
 public:
  using Clock = StatusLine::Clock;

  // Silent if `is_quiet`. `now` is the clock.
  DrawProgress(int64_t scenarios, bool is_quiet, reports::Style style, bool is_terminal,
               std::function<Clock::time_point()> now = Clock::now);

  void begin(const std::string& scenario);
  void looked_at_a_case();  // throws DrawingInterrupted

 private:
  std::string line() const;

  const int64_t scenarios_;
  const bool is_quiet_;
  const std::function<Clock::time_point()> now_;
  const Clock::time_point began_;
  StatusLine status_;
  StatusRequests requests_;
  const std::atomic<bool>& interrupted_;
  std::string scenario_;
  int64_t begun_ = 0, cases_ = 0;
};

}  // namespace lockstep::cli
