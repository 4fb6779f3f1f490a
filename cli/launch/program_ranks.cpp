#include "cli/launch/program_ranks.h"

#include "cli/exit_codes.h"
#include "cli/launch/rank_failure.h"
#include "cli/launch/rank_output.h"
#include "cli/print.h"
#include "cli/run_app.h"
#include "harness/cases/tier.h"
#include "harness/process/descriptor.h"
#include "harness/process/message.h"
#include "harness/process/start_program.h"
#include "harness/worlds/launched/remotes.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>

namespace lockstep::cli {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kLastWords{2}, kEndPatience{10};
constexpr int kCannotRun = 127;  // a shell's exit code for it

void signal_event(const Descriptor& event) {
  const uint64_t one = 1;
  [[maybe_unused]] const auto written = write(event.number(), &one, sizeof(one));
}

Descriptor new_event() {
  return Descriptor(checked(eventfd(0, EFD_CLOEXEC), "an eventfd"));
}

// A thread beside the one that waits for the ranks: forwards their output and signals.
class Attendant {
 public:
  Attendant(std::vector<RankStream> streams, int socket, const ChildGroup& group)
      : streams_(std::move(streams)),
        socket_(socket),
        group_(group),
        stop_(new_event()),
        wake_(new_event()),
        thread_([this] { attend(); }) {}

  // Readable once all ranks must be killed.
  int stop_descriptor() const { return stop_.number(); }

  void a_rank_failed() {
    term_at_ = (Clock::now() + kLastWords).time_since_epoch().count();
    signal_event(wake_);
  }

  // Call it after all ranks and their descendants have ended: writes the remaining output, and
  // returns the signal that was passed on, or 0.
  int finish() {
    is_finishing_ = true;
    signal_event(wake_);
    thread_.join();
    return passed_;
  }

  // After finish(): why output was lost; empty where none was, or its reader had closed the pipe.
  const std::string& unwritten() const { return unwritten_; }

 private:
  bool has_open_streams() const {
    return std::any_of(streams_.begin(), streams_.end(),
                       [](const auto& stream) { return stream.from.number() >= 0; });
  }

  void attend() {
    while (!is_finishing_ || has_open_streams()) {
      std::vector<pollfd> waited{{socket_, POLLIN, 0}, {wake_.number(), POLLIN, 0}};
      for (const auto& stream : streams_) waited.push_back({stream.from.number(), POLLIN, 0});
      poll(waited.data(), waited.size(), milliseconds_until(next_act()));
      if (waited[0].revents != 0) receive();
      if (waited[1].revents != 0) {
        uint64_t count = 0;
        [[maybe_unused]] const auto got = read(wake_.number(), &count, sizeof(count));
      }
      for (size_t at = 0; at < streams_.size(); ++at)
        if (waited[at + 2].revents != 0) note(streams_[at].to, read_some(streams_[at]));
      act();
    }
  }

  Clock::time_point term_at() const { return Clock::time_point(Clock::duration(term_at_.load())); }

  Clock::time_point next_act() const { return std::min(term_at(), kill_at_); }

  void act() {
    if (Clock::now() >= term_at()) {
      term_at_ = Clock::time_point::max().time_since_epoch().count();
      group_.signal(SIGTERM);
    }
    if (Clock::now() >= kill_at_) {
      kill_at_ = Clock::time_point::max();
      signal_event(stop_);
    }
  }

  // A reader may close the pipe early: EPIPE is not an error.
  void note(int to, int problem) {
    if (problem != 0 && problem != EPIPE && unwritten_.empty()) {
      unwritten_ = std::string(to == STDOUT_FILENO ? "standard output" : "standard error") +
                   " cannot be written: " + std::strerror(problem);
    }
  }

  void receive() {
    const auto received = receive_message(socket_);
    if (!received) socket_ = -1;
    const bool is_signal = received && received->kind == kPassedSignal;
    if (is_signal && passed_ == 0) {
      passed_ = std::atoi(received->text.c_str());
      kill_at_ = Clock::now() + kEndPatience;
      group_.signal(passed_);
    } else {
      kill_at_ = Clock::now();
    }
  }

  std::vector<RankStream> streams_;
  int socket_;
  const ChildGroup& group_;
  Descriptor stop_, wake_;
  std::atomic<bool> is_finishing_ = false;
  std::atomic<Clock::rep> term_at_ = Clock::time_point::max().time_since_epoch().count();
  Clock::time_point kill_at_ = Clock::time_point::max();
  int passed_ = 0;
  std::string unwritten_;
  std::thread thread_;
};

// Returns the previous limit.
rlimit allow_descriptors(int count) {
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const rlim_t wanted = std::min(before.rlim_max, static_cast<rlim_t>(count));
  const rlimit now{std::max(before.rlim_cur, wanted), before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &now);
  return before;
}

[[nodiscard]] int become(const ProgramRanks& ranks, int rank, const rlimit& limit) {
  for (const auto& [name, value] : variables_of(ranks, rank))
    setenv(name.c_str(), value.c_str(), 1);
  const Descriptor nothing(open("/dev/null", O_RDONLY | O_CLOEXEC));
  dup2(nothing.number(), STDIN_FILENO);
  handle_signals_as_others_do();
  setrlimit(RLIMIT_NOFILE, &limit);
  const auto why = become_program(ranks.command[0], ranks.command);
  print_to_stderr(ranks.command[0] + " cannot be run: " + why);
  return kCannotRun;
}

int exit_code_of(const ChildEnd& end) {
  return end.kind == ChildEnd::Kind::signalled ? 128 + end.code : end.code;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> variables_of(const ProgramRanks& ranks, int rank) {
  const auto number = std::to_string(rank), count = std::to_string(ranks.count);
  std::vector<std::pair<std::string, std::string>> variables{
      {"RANK", number},
      {"WORLD_SIZE", count},
      {"LOCAL_RANK", number},
      {"LOCAL_WORLD_SIZE", count},
      {"GROUP_RANK", "0"},
      {"GROUP_WORLD_SIZE", "1"},
      {"MASTER_ADDR", kLoopback},
      {"MASTER_PORT", std::to_string(ranks.store_port)},
      {"TORCHELASTIC_USE_AGENT_STORE", "True"},
      {"TORCHELASTIC_RESTART_COUNT", "0"},
      {"TORCHELASTIC_MAX_RESTARTS", "0"},
      {"TORCHELASTIC_RUN_ID", ranks.run_id},
      {"TORCHELASTIC_ERROR_FILE", error_file_of(ranks, rank)}};
  if (!ranks.secret.empty()) variables.emplace_back(kSecretVariable, ranks.secret);
  if (!ranks.record.empty()) variables.emplace_back("LOCKSTEP_RECORD", ranks.record.string());
  // As torchrun: otherwise every rank would use all cores.
  if (ranks.count > 1 && std::getenv("OMP_NUM_THREADS") == nullptr)
    variables.emplace_back("OMP_NUM_THREADS", "1");
  return variables;
}

int descriptors_for(int ranks) {
  constexpr int kEndsForEach = 4, kBesides = 64;
  return ranks * kEndsForEach + kBesides;
}

ProgramEnd run_program_ranks(const ProgramRanks& ranks, int socket) {
  const SingleThreaded alone;
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe must not end the supervisor
  const rlimit limit = allow_descriptors(descriptors_for(ranks.count));
  std::vector<RankStream> streams;
  std::vector<std::array<Descriptor, 2>> theirs;
  for (int rank = 0; rank < ranks.count; ++rank) {
    theirs.emplace_back();
    for (const int to : {STDOUT_FILENO, STDERR_FILENO}) {
      std::array<int, 2> ends{};
      checked(pipe2(ends.data(), O_CLOEXEC), "a pipe");
      streams.push_back({.rank = rank, .to = to, .from = Descriptor(ends[0])});
      theirs.back()[to == STDERR_FILENO] = Descriptor(ends[1]);
    }
  }
  ChildGroup group(alone, ranks.count, [&](int rank) {
    const auto& own = theirs[static_cast<size_t>(rank)];
    dup2(own[0].number(), STDOUT_FILENO);
    dup2(own[1].number(), STDERR_FILENO);
    return become(ranks, rank, limit);
  });
  theirs.clear();
  Attendant attendant(std::move(streams), socket, group);
  const auto report = group.wait({.deadline = Clock::time_point::max(),
                                  .grace = kEndPatience,
                                  .stop_descriptor = attendant.stop_descriptor(),
                                  .on_bad_end = [&] { attendant.a_rank_failed(); }});
  end_descendants();
  const int passed = attendant.finish();
  ProgramEnd end{.exit_code = passed == 0 ? 0 : 128 + passed,
                 .sentence = passed == 0 ? "" : "ended by " + signal_name(passed)};
  if (passed == 0 && report.first_bad >= 0) {
    const int first = first_failed(ranks, report);
    end = {.exit_code = exit_code_of(report.ends[static_cast<size_t>(first)]),
           .sentence = failure_text(ranks, report, first)};
  }
  if (const auto killed = killed_text(report); !killed.empty())
    end.sentence += (end.sentence.empty() ? "" : "; ") + killed;
  if (const auto& lost = attendant.unwritten(); !lost.empty()) {
    end.sentence += (end.sentence.empty() ? "" : "; ") + lost;
    if (end.exit_code == 0) end.exit_code = kUsage;
  }
  return end;
}

}  // namespace lockstep::cli
