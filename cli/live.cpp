#include "cli/live.h"

#include "cli/machine.h"
#include "harness/core/text.h"
#include "harness/engine/draw.h"
#include "reports/devices.h"
#include "reports/history.h"

#include <algorithm>
#include <iostream>
#include <unistd.h>

namespace lockstep::cli {

namespace {

constexpr std::chrono::milliseconds kLiveEvery{100};
constexpr std::chrono::seconds kLogEvery{10};
constexpr std::chrono::seconds kPatience{5};
constexpr int64_t kBarCells = 18;
constexpr char kEraseLine[] = "\r\033[K";

std::string bar(int64_t done, int64_t all) {
  const int64_t full = all == 0 ? 0 : kBarCells * done / all;
  std::string text;
  for (int64_t cell = 0; cell < kBarCells; ++cell) text += cell < full ? "█" : " ";
  return text;
}

// At most `columns` of it, so that a terminal never breaks the line.
std::string cut(const std::string& text, size_t columns) {
  std::string out = text;
  while (reports::width(out) > columns) out.pop_back();
  return out;
}

std::string slow_text(const Slow& slow, std::chrono::milliseconds deadline, const Run& run) {
  const auto* shared = reports::shared_on(slow.setting.backend, run);
  return "slow: " + slow.scenario + ", case " + std::to_string(slow.number) + " of " +
         std::to_string(slow.of) + (slow.play > 1 ? ", play " + std::to_string(slow.play) : "") +
         ", has run for " + reports::seconds(slow.so_far) + " s" +
         (slow.usual ? "; the longest case before took " + reports::seconds(*slow.usual) + " s"
                     : "") +
         (shared ? "; " + reports::shared_text(*shared) : "") + "; its ranks are killed after " +
         reports::seconds(deadline) + " s\n";
}

}  // namespace

Live::Live(const Run& run, reports::Columns columns, LiveOptions options)
    : run_(run),
      columns_(columns),
      options_(std::move(options)),
      began_(options_.now()),
      shown_(began_),
      slow_(kPatience) {}

Live::~Live() {
  erase_status();  // What broke the run is told on a line of its own.
}

void Live::erase_status() {
  if (status_is_shown_) std::cerr << kEraseLine << std::flush;
  status_is_shown_ = false;
}

void Live::print(const std::string& text) {
  erase_status();
  std::cout << text << std::flush;
}

void Live::headline() {
  if (options_.detail != Detail::quiet) print(reports::headline(run_, options_.out));
}

void Live::on_case(const Turn& turn) {
  slow_.began(turn, options_.now());
  scenario_ = turn.c.scenario;
  show_progress();
}

void Live::on_wait() {
  for (const auto& slow : slow_.slow(options_.now())) {
    if (options_.detail == Detail::quiet) continue;
    erase_status();
    std::cerr << shown(slow_text(slow, options_.deadline, run_), options_.progress) << std::flush;
  }
  show_progress();
}

void Live::on_verdict(const Turn& turn, const History& history, const Verdict& verdict) {
  slow_.ended(turn, options_.now());
  if (turn.play == 1) ++cases_;
  if (options_.detail == Detail::verbose)
    print(shown("    " + reports::padded(std::string(name_of(verdict.kind)), 12) + "  " +
                    turn.c.scenario + "  case " + std::to_string(turn.number) + " of " +
                    std::to_string(turn.of) +
                    (turn.play > 1 ? ", play " + std::to_string(turn.play) : "") + "  " +
                    told_of(turn.c).dump(),
                options_.out) +
          "\n");
  if (options_.show_rows && turn.play == 1)
    print(shown(reports::history_text(history), options_.out));
}

void Live::on_result(const Result& result) {
  ++results_;
  if (options_.detail == Detail::quiet && !is_failure(result.kind) &&
      result.kind != Result::Kind::inconclusive)
    return;
  print(reports::result_text(result, run_, columns_, options_.out));
}

void Live::summary() {
  print(reports::summary(run_, options_.out));
}

std::string Live::progress_line() const {
  const std::string results =
      "[" + std::to_string(results_) + "/" + std::to_string(options_.results) + "] ";
  const std::string cases = with_commas(cases_) + " of " + reports::counted(options_.cases, "case");
  if (options_.progress_is_live)
    return results + bar(cases_, options_.cases) + "  " + cases + "  " + scenario_;
  const auto time = std::chrono::duration_cast<std::chrono::seconds>(options_.now() - began_);
  return results + cases + "  " + std::to_string(time.count()) + " s  " + scenario_;
}

void Live::show_progress() {
  if (options_.detail == Detail::quiet) return;
  const auto now = options_.now();
  const std::chrono::milliseconds every = options_.progress_is_live ? kLiveEvery : kLogEvery;
  if (now - shown_ < every) return;
  shown_ = now;
  const auto line = shown(progress_line(), options_.progress);
  if (options_.progress_is_live) {
    const auto columns = static_cast<size_t>(std::max(1, terminal_columns(STDERR_FILENO) - 1));
    std::cerr << kEraseLine << cut(line, columns) << std::flush;
    status_is_shown_ = true;
  } else {
    std::cerr << line << "\n" << std::flush;
  }
}

}  // namespace lockstep::cli
