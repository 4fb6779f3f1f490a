#include "cli/run/draw_progress.h"

#include "cli/print.h"
#include "harness/base/text.h"

namespace lockstep::cli {

DrawProgress::DrawProgress(int64_t scenarios, bool is_quiet, reports::Style style, bool is_terminal,
                           std::function<Clock::time_point()> now)
    : scenarios_(scenarios),
      is_quiet_(is_quiet),
      now_(std::move(now)),
      began_(now_()),
      status_(style, is_terminal, now_),
      interrupted_(watch_interrupts()) {}

void DrawProgress::begin(const std::string& scenario) {
  scenario_ = scenario;
  ++begun_;
}

void DrawProgress::looked_at_a_case() {
  ++cases_;
  if (interrupted_) {
    status_.erase();
    throw DrawingInterrupted("the run was interrupted while cases were drawn: none was run");
  }
  if (requests_.take()) {
    status_.erase();
    print_progress("running: " + line() + "\n");
  }
  if (!is_quiet_) status_.show([this] { return line(); });
}

std::string DrawProgress::line() const {
  const auto time = std::chrono::duration_cast<std::chrono::seconds>(now_() - began_);
  return "[" + std::to_string(begun_) + "/" + std::to_string(scenarios_) + "] drawing " +
         counted(cases_, "case") + "  " + std::to_string(time.count()) + " s  " + scenario_;
}

}  // namespace lockstep::cli
