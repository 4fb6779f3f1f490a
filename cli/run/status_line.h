// The progress line on stderr. On a terminal it is redrawn in place, ten times a second; in a log
// it is a line every ten seconds, without '\r'.
#pragma once

#include "reports/style.h"

#include <functional>

namespace lockstep::cli {

class StatusLine {
 public:
  using Clock = std::chrono::steady_clock;

  // `now` is the clock; nothing is shown before the first tenth of a second, or ten seconds.
  StatusLine(reports::Style style, bool is_terminal, std::function<Clock::time_point()> now);
  ~StatusLine();
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;

  bool is_terminal() const { return is_terminal_; }

  // Shows what `text` returns, if a redraw is due.
  void show(const std::function<std::string()>& text);

  // Call it before printing anything else.
  void erase();

 private:
  const reports::Style style_;
  const bool is_terminal_;
  const std::function<Clock::time_point()> now_;
  Clock::time_point shown_;
  bool is_shown_ = false;
};

}  // namespace lockstep::cli
