// What a person sees while a run goes on: results on stdout as they come, progress on stderr. On a
// terminal progress is one line that changes; in a log it is a line now and then, without '\r'. A
// case that takes unusually long is named once, on stderr.
#pragma once

#include "harness/engine/slow_watch.h"
#include "reports/terminal.h"

#include <functional>

namespace lockstep::cli {

// `quiet`: no progress and no passing results. `verbose`: a line each verdict, too.
enum class Detail { quiet, normal, verbose };

struct LiveOptions {
  reports::Style out;             // of stdout
  reports::Style progress;        // of stderr
  bool progress_is_live = false;  // stderr is a terminal
  Detail detail = Detail::normal;
  bool show_rows = false;                // every row of every history
  int64_t results = 0, cases = 0;        // how many there will be, at most
  std::chrono::milliseconds deadline{};  // of one play
  std::function<std::chrono::steady_clock::time_point()> now = std::chrono::steady_clock::now;
};

class Live : public Listener {
 public:
  // `run` outlives it and holds what the headline says.
  Live(const Run& run, reports::Columns columns, LiveOptions options);
  ~Live() override;
  Live(const Live&) = delete;
  Live& operator=(const Live&) = delete;

  void headline();
  void on_case(const Turn& turn) override;
  void on_verdict(const Turn& turn, const History& history, const Verdict& verdict) override;
  void on_result(const Result& result) override;
  void on_wait() override;
  void summary();

 private:
  using Clock = std::chrono::steady_clock;
  void print(const std::string& text);
  void erase_status();
  void show_progress();
  std::string progress_line() const;

  const Run& run_;
  const reports::Columns columns_;
  const LiveOptions options_;
  const Clock::time_point began_;
  Clock::time_point shown_;
  bool status_is_shown_ = false;
  int64_t results_ = 0, cases_ = 0;
  std::string scenario_;  // the last that began
  SlowWatch slow_;
};

}  // namespace lockstep::cli
