#include "cli/live.h"

#include "cli/machine.h"
#include "harness/core/text.h"
#include "reports/history.h"

#include <algorithm>
#include <iostream>
#include <unistd.h>

namespace lockstep::cli {

namespace {

constexpr std::chrono::milliseconds kLiveEvery{100};
constexpr std::chrono::seconds kLogEvery{10};
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

}  // namespace

Live::Live(const Run& run, reports::Columns columns, LiveOptions options)
    : run_(run), columns_(columns), options_(options) {}

void Live::print(const std::string& text) {
  if (options_.progress_is_live) std::cerr << kEraseLine << std::flush;
  std::cout << text << std::flush;
}

void Live::headline() {
  if (options_.detail != Detail::quiet) print(reports::headline(run_, options_.out));
}

void Live::on_case(const Turn& turn) {
  show_progress(turn.c.scenario);
}

void Live::on_verdict(const Turn& turn, const History& history, const Verdict& verdict) {
  if (turn.play == 1) ++cases_;
  if (options_.detail == Detail::verbose)
    print(shown("    " + reports::padded(std::string(name_of(verdict.kind)), 12) + "  " +
                    turn.c.scenario + "  case " + std::to_string(turn.number) + " of " +
                    std::to_string(turn.of) +
                    (turn.play > 1 ? ", play " + std::to_string(turn.play) : "") + "  " +
                    turn.c.value.dump(),
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

std::string Live::progress_line(const std::string& scenario) const {
  const std::string results =
      "[" + std::to_string(results_) + "/" + std::to_string(options_.results) + "] ";
  const std::string cases = with_commas(cases_) + " of " + reports::counted(options_.cases, "case");
  if (options_.progress_is_live)
    return results + bar(cases_, options_.cases) + "  " + cases + "  " + scenario;
  const auto time = std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - began_);
  return results + cases + "  " + std::to_string(time.count()) + " s  " + scenario;
}

void Live::show_progress(const std::string& scenario) {
  if (options_.detail == Detail::quiet) return;
  const auto now = Clock::now();
  const std::chrono::milliseconds every = options_.progress_is_live ? kLiveEvery : kLogEvery;
  if (now - shown_ < every) return;
  shown_ = now;
  const auto line = shown(progress_line(scenario), options_.progress);
  if (options_.progress_is_live) {
    const auto columns = static_cast<size_t>(std::max(1, terminal_columns(STDERR_FILENO) - 1));
    std::cerr << kEraseLine << cut(line, columns) << std::flush;
  } else {
    std::cerr << line << "\n" << std::flush;
  }
}

}  // namespace lockstep::cli
