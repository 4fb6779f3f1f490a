#include "train/spawn/child.h"

#include "ddp/errors.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fcntl.h>
#include <iostream>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <tuple>
#include <unistd.h>
#include <utility>

namespace lockstep {

namespace {

constexpr std::size_t kLongestReport = 32'768;  // fits into a pipe, so that no writer blocks

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void set_environment(const RankAndSize& position, const RendezvousAddress& point) {
  const std::pair<const char*, std::string> variables[] = {
      {"RANK", std::to_string(position.rank)},
      {"WORLD_SIZE", std::to_string(position.world_size)},
      {"LOCAL_RANK", std::to_string(position.rank)},
      {"LOCAL_WORLD_SIZE", std::to_string(position.world_size)},
      {"MASTER_ADDR", point.address},
      {"MASTER_PORT", std::to_string(point.port)},
      {"TORCHELASTIC_USE_AGENT_STORE", "True"}};  // the store is the parent's
  for (const auto& [name, value] : variables) ::setenv(name, value.c_str(), /*overwrite=*/1);
  // Those of a launcher that started the parent.
  for (const char* name : {"TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_ERROR_FILE"})
    ::unsetenv(name);
}

// The kind, the moment and the sentence: "C 123456 rank 0: ...".
std::string report_of(const std::function<void(int rank)>& function, int rank) {
  const auto report = [](const char* kind, const std::string& sentence) {
    return kind + std::to_string(now_ns()) + " " + sentence;
  };
  try {
    function(rank);
    return "";
  } catch (const CommunicationError& error) {
    return report("C", first_line(error));
  } catch (const std::exception& error) {
    return report("E", first_line(error));
  } catch (...) {
    return report("E", "it threw something that is no std::exception");
  }
}

[[noreturn]] void be_child(const RankAndSize& position, const RendezvousAddress& point,
                           pid_t parent, int report_end,
                           const std::function<void(int rank)>& function) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(EXIT_FAILURE);  // it died before that
  set_environment(position, point);
  at::set_num_threads(std::max(1, at::get_num_threads() / position.world_size));
  const std::string report = report_of(function, position.rank).substr(0, kLongestReport);
  std::cout.flush();
  std::cerr.flush();
  std::fflush(nullptr);
  const auto written = ::write(report_end, report.data(), report.size());
  const bool is_well = report.empty() || written < 0;
  ::_exit(is_well ? EXIT_SUCCESS : EXIT_FAILURE);
}

SpawnFailure read_report(int report, const std::string& rank_of_world, const std::string& ending) {
  std::string text(kLongestReport, '\0');
  const auto size = ::read(report, text.data(), text.size());
  text.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  const std::size_t space = text.find(' ');
  if (space == std::string::npos) return {.sentence = rank_of_world + ending};
  return {.sentence = rank_of_world + ": " + text.substr(space + 1),
          .is_consequence = text.front() == 'C',
          .moment_ns = std::stoll(text.substr(1, space - 1))};
}

}  // namespace

bool SpawnFailure::operator<(const SpawnFailure& other) const {
  return std::tie(is_consequence, moment_ns) < std::tie(other.is_consequence, other.moment_ns);
}

Child Child::start(const RankAndSize& position, const RendezvousAddress& point, int store_socket,
                   const std::function<void(int rank)>& function) {
  const auto refuse = [&](const char* what) {
    throw Error("spawn: rank " + std::to_string(position.rank) + " gets no " + what + ": " +
                std::strerror(errno));
  };
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) refuse("pipe");
  std::cout.flush();  // otherwise both would write it
  std::cerr.flush();
  std::fflush(nullptr);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::close(ends[0]);
    ::close(store_socket);
    be_child(position, point, parent, ends[1], function);
  }
  ::close(ends[1]);
  if (pid < 0) {
    ::close(ends[0]);
    refuse("process");
  }
  return {position, pid, ends[0]};
}

Child::Child(Child&& other) noexcept
    : position_(other.position_),
      pid_(std::exchange(other.pid_, 0)),
      report_(std::exchange(other.report_, -1)),
      failure_(std::move(other.failure_)) {}

Child::~Child() {
  kill_and_wait();
  if (report_ >= 0) ::close(report_);
}

bool Child::look() {
  if (pid_ == 0) return true;
  int status = 0;
  if (::waitpid(pid_, &status, WNOHANG) != pid_) return false;
  take_status(status);
  return true;
}

void Child::take_status(int status) {
  pid_ = 0;
  const std::string rank_of_world =
      "rank " + std::to_string(position_.rank) + " of " + std::to_string(position_.world_size);
  if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    failure_ = SpawnFailure{.sentence = rank_of_world + " was ended by signal " +
                                        std::to_string(signal) + " (" + ::strsignal(signal) + ")"};
  } else if (WEXITSTATUS(status) != 0) {
    failure_ = read_report(report_, rank_of_world,
                           " exited with status " + std::to_string(WEXITSTATUS(status)) +
                               " before its function returned");
  }
}

void Child::send_terminate() {
  if (pid_ > 0) ::kill(pid_, SIGTERM);
}

void Child::kill_and_wait() {
  if (pid_ == 0) return;
  ::kill(pid_, SIGKILL);
  int status = 0;
  ::waitpid(pid_, &status, 0);
  take_status(status);
}

}  // namespace lockstep
