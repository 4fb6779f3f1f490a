#include "cli/run/live.h"

#include "cli/print.h"
#include "harness/base/text.h"
#include "harness/cases/draw.h"
#include "harness/cases/shown_fields.h"
#include "reports/devices.h"
#include "reports/history.h"
#include "reports/run_text.h"

#include <fstream>

namespace lockstep::cli {

namespace {

constexpr std::chrono::seconds kPatience{5};
constexpr int64_t kBarCells = 18;

std::string bar(int64_t done, int64_t all) {
  const int64_t full = all == 0 ? 0 : kBarCells * done / all;
  std::string text;
  for (int64_t cell = 0; cell < kBarCells; ++cell) text += cell < full ? "█" : " ";
  return text;
}

// ", about 40 s left", where the cases so far say something of those to come.
std::string left_text(int64_t done, int64_t all, std::chrono::seconds so_far) {
  constexpr std::chrono::seconds kTooShort{5}, kInMinutes{120};
  if (done == 0 || done >= all || so_far < kTooShort) return "";
  const std::chrono::seconds left = so_far * (all - done) / done;
  return ", about " +
         (left < kInMinutes ? std::to_string(left.count()) + " s"
                            : std::to_string((left.count() + 30) / 60) + " min") +
         " left";
}

std::string case_text(const Slow& slow) {
  return slow.scenario + ", case " + std::to_string(slow.number) + " of " +
         std::to_string(slow.of) + (slow.run > 1 ? ", run " + std::to_string(slow.run) : "");
}

std::string slow_text(const Slow& slow, std::chrono::milliseconds time_limit, const Run& run) {
  const auto* shared = reports::shared_on(slow.setting.backend, run);
  return "slow: " + case_text(slow) + ", has run for " + reports::seconds(slow.so_far) + " s" +
         (slow.usual ? "; the longest case before took " + reports::seconds(*slow.usual) + " s"
                     : "") +
         (shared ? "; " + reports::shared_text(*shared) : "") + "; its ranks are killed after " +
         reports::seconds(time_limit) + " s\n";
}

std::string running_text(const Slow& slow) {
  return "running: " + case_text(slow) + " (" + slow.setting.subject + ", " + slow.setting.tier +
         ", " + slow.setting.backend + "), for " + reports::seconds(slow.so_far) + " s\n";
}

}  // namespace

Live::Live(const Run& run, reports::Columns columns, LiveOptions options)
    : run_(run),
      columns_(columns),
      options_(std::move(options)),
      began_(options_.now()),
      status_(options_.progress, options_.progress_is_live, options_.now),
      slow_(kPatience) {}

void Live::print(const std::string& text) {
  status_.erase();
  print_shown(text);
}

void Live::headline() {
  if (options_.detail != Detail::quiet) print(reports::headline(run_, options_.out));
}

void Live::on_case(const Turn& turn) {
  if (turn.is_trial) {
    trials_ = shrinks_ == turn.c.scenario ? trials_ + 1 : 1;
    shrinks_ = turn.c.scenario;
    show_progress();
    return;
  }
  slow_.began(turn, options_.now());
  scenario_ = turn.c.scenario;
  show_progress();
}

void Live::on_wait() {
  for (const auto& slow : slow_.slow(options_.now())) {
    if (options_.detail != Detail::quiet) say(slow_text(slow, options_.time_limit, run_));
  }
  if (options_.wants_to_know && options_.wants_to_know()) print_what_runs();
  show_progress();
}

std::string Live::shrinking_text() const {
  return "shrinking " + shrinks_ + ", " + counted(trials_, "run");
}

void Live::say(const std::string& text) {
  status_.erase();
  print_progress(shown(text, options_.progress));
}

void Live::print_what_runs() {
  const auto running = slow_.running(options_.now());
  for (const auto& one : running) say(running_text(one));
  if (trials_ > 0) say(shrinking_text() + "\n");
  if (running.empty() && trials_ == 0) say("running: no case at this moment\n");
}

void Live::on_verdict(const Turn& turn, const History& history, const Verdict& verdict) {
  if (!turn.is_trial) slow_.ended(turn, options_.now());
  if (!turn.is_trial && (turn.run == 1 || options_.cases == 0)) ++cases_;
  if (options_.detail == Detail::verbose)
    print(shown("    " + reports::padded(std::string(name_of(verdict.kind)), 12) + "  " +
                    turn.c.scenario + (turn.is_trial ? "  shrinking case " : "  case ") +
                    std::to_string(turn.number) + " of " + std::to_string(turn.of) +
                    (turn.run > 1 ? ", run " + std::to_string(turn.run) : "") + "  " +
                    displayed_value(turn.c).dump(),
                options_.out) +
          "\n");
  if (turn.is_trial) return;
  if (options_.show_rows && turn.run == 1)
    print(shown(reports::history_text(history), options_.out));
}

void Live::on_output(const Turn& turn, const std::filesystem::path& folder) {
  for (int rank = 0; rank < world_size(turn.c); ++rank)
    for (const char* stream : {".out", ".err"}) {
      std::ifstream in(folder / ("rank" + std::to_string(rank) + stream));
      for (std::string line; std::getline(in, line);)
        print(shown("[" + std::to_string(rank) + "] " + line, options_.out) + "\n");
    }
}

void Live::on_result(const Result& result) {
  ++results_;
  if (result.scenario == shrinks_) trials_ = 0;
  if (options_.detail == Detail::summary) return;
  if (options_.detail == Detail::quiet && !is_failure(result.kind) &&
      result.kind != Result::Kind::inconclusive)
    return;
  print(reports::result_text(result, run_, columns_, options_.out));
}

void Live::summary() {
  print(reports::slowest(run_, options_.slowest, options_.out) +
        reports::summary(run_, options_.out) +
        (options_.shows_statistics ? shown(reports::statistics(run_), options_.out) : ""));
}

std::string Live::progress_line() const {
  const std::string results =
      "[" + std::to_string(results_) + "/" + std::to_string(options_.results) + "] ";
  const bool is_bounded = options_.cases > 0;
  const std::string cases = is_bounded
                                ? with_commas(cases_) + " of " + counted(options_.cases, "case")
                                : counted(cases_, "case");
  const auto time = std::chrono::duration_cast<std::chrono::seconds>(options_.now() - began_);
  const auto left = is_bounded ? left_text(cases_, options_.cases, time) : "";
  const auto what = "  " + (trials_ > 0 ? shrinking_text() : scenario_);
  if (options_.progress_is_live)
    return results + (is_bounded ? bar(cases_, options_.cases) + "  " : "") + cases + left + what;
  return results + cases + "  " + std::to_string(time.count()) + " s" + left + what;
}

void Live::show_progress() {
  if (options_.detail == Detail::quiet) return;
  status_.show([this] { return progress_line(); });
}

}  // namespace lockstep::cli
