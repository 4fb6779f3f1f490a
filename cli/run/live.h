// Output during a run: results on stdout as they come, progress on stderr (status_line.h). A case
// that takes unusually long is named once, on stderr; a status request prints the running cases
// there.
#pragma once

#include "cli/run/status_line.h"
#include "harness/campaign/slow_watch.h"
#include "reports/terminal.h"

namespace lockstep::cli {

// `summary`: no results. `quiet`: no progress and no passing results. `verbose`: also a line per
// verdict.
enum class Detail { summary, quiet, normal, verbose };

struct LiveOptions {
  reports::Style out;             // of stdout
  reports::Style progress;        // of stderr
  bool progress_is_live = false;  // stderr is a terminal
  Detail detail = Detail::normal;
  bool show_rows = false;                  // every row of every history
  size_t slowest = 0;                      // cases that the summary lists
  bool shows_statistics = false;           // of the kinds of cases that were drawn
  int64_t results = 0, cases = 0;          // upper bounds; no cases: nobody knows how many
  std::chrono::milliseconds time_limit{};  // of one case
  std::function<bool()> wants_to_know;     // whether a status request came since the last call
  std::function<std::chrono::steady_clock::time_point()> now = std::chrono::steady_clock::now;
};

class Live : public Listener {
 public:
  // `run` outlives it and holds what the headline says.
  Live(const Run& run, reports::Columns columns, LiveOptions options);

  void headline();
  void on_case(const Turn& turn) override;
  void on_verdict(const Turn& turn, const History& history, const Verdict& verdict) override;
  void on_output(const Turn& turn, const std::filesystem::path& folder) override;
  void on_result(const Result& result) override;
  void on_wait() override;
  void summary();

 private:
  using Clock = std::chrono::steady_clock;
  void print(const std::string& text);
  void say(const std::string& text);  // on stderr
  void print_what_runs();
  void show_progress();
  std::string progress_line() const;
  std::string shrinking_text() const;

  const Run& run_;
  const reports::Columns columns_;
  const LiveOptions options_;
  const Clock::time_point began_;
  StatusLine status_;
  int64_t results_ = 0, cases_ = 0;
  std::string scenario_;  // the last that began
  int64_t trials_ = 0;    // of the failing case that is being shrunk; 0: none is
  std::string shrinks_;   // its scenario
  SlowWatch slow_;
};

}  // namespace lockstep::cli
