#include "harness/process/zygote.h"

#include "harness/base/tier_errors.h"
#include "harness/process/child_group.h"
#include "harness/process/message.h"

#include <array>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace lockstep {

namespace {

using Clock = std::chrono::steady_clock;

Message message(ServerWord word, std::string text) {
  return {static_cast<uint32_t>(word), std::move(text)};
}

bool is(ServerWord word, const Message& received) {
  return received.kind == static_cast<uint32_t>(word);
}

// Ends the server when the runner is gone. Reading the end of the socket is the orderly way to
// notice; if the server is stuck elsewhere, the alarm ends it.
void on_runner_death(int) {
  alarm(2);
}

void settle_in(pid_t runner) {
  setpgid(0, 0);
  for (int signal = 1; signal < NSIG; ++signal) std::signal(signal, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  std::signal(SIGTERM, on_runner_death);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != runner) _exit(0);
  adopt_orphans();
}

Message answer(const ZygoteServer& server, const std::string& text, int socket) {
  try {
    return message(ServerWord::reply, server.serve(text, socket));
  } catch (const std::exception& error) {
    return message(ServerWord::failure, error.what());
  }
}

// The first request receives the failure of a preparation.
void serve_all(const ZygoteServer& server, int socket) {
  std::string unprepared;
  try {
    server.prepare();
  } catch (const std::exception& error) {
    unprepared = error.what();
  }
  while (const auto received = receive_message(socket)) {
    if (!is(ServerWord::request, *received)) continue;  // a stop that came too late
    const Message answered = unprepared.empty() ? answer(server, received->text, socket)
                                                : message(ServerWord::failure, unprepared);
    if (!send_message(socket, answered)) break;
  }
  end_descendants();
  if (server.finish) server.finish();
}

[[noreturn]] void run_server(const ZygoteServer& server, int socket) noexcept {
  serve_all(server, socket);
  _exit(0);
}

std::string status_text(int status) {
  if (WIFSIGNALED(status)) return "was ended by " + signal_name(WTERMSIG(status));
  return "exited with status " + std::to_string(WEXITSTATUS(status));
}

}  // namespace

Zygote::Zygote(const SingleThreaded& alone, const ZygoteServer& server,
               std::span<const int> close_there) {
  std::array<int, 2> ends{};
  checked(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), "a pair of sockets");
  socket_ = Descriptor(ends[0]);
  Descriptor theirs(ends[1]);
  // A process that inherits buffered output would write it a second time.
  std::fflush(nullptr);
  std::cout.flush();
  const pid_t runner = getpid();
  pid_ = checked(alone.fork(), "a server process could not be forked");
  if (pid_ == 0) {
    socket_.close();
    for (const int other : close_there) ::close(other);
    settle_in(runner);
    run_server(server, theirs.number());
  }
  alive_ = true;
  process_ = Descriptor(static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)));
  checked(process_.number(), "pidfd_open");
}

Zygote::~Zygote() {
  end(std::chrono::seconds(2));
}

// Closes the conversation, which ends the server, then kills it.
void Zygote::end(std::chrono::milliseconds patience) {
  if (!alive_) return;
  alive_ = false;
  shutdown(socket_.number(), SHUT_RDWR);
  pollfd gone{process_.number(), POLLIN, 0};
  if (poll(&gone, 1, static_cast<int>(patience.count())) != 1) kill(pid_, SIGKILL);
  waitpid(pid_, &status_, 0);
}

void Zygote::fail(const std::string& what) {
  end(std::chrono::seconds(2));
  throw TierError("the server process (pid " + std::to_string(pid_) + ") " +
                  (what.empty() ? status_text(status_) : what));
}

std::string Zygote::request(const std::string& text, std::chrono::milliseconds limit) {
  if (!alive_) fail("");
  const auto until = Clock::now() + limit;
  {
    const std::lock_guard lock(sending_);
    if (stopped_) throw Interrupted();
    if (!send_message(socket_.number(), message(ServerWord::request, text))) fail("");
  }
  return receive_reply(until);
}

std::string Zygote::receive_reply(Clock::time_point until) {
  pollfd readable{socket_.number(), POLLIN, 0};
  while (poll(&readable, 1, milliseconds_until(until)) < 1)
    if (Clock::now() >= until) fail("did not answer in time, and was killed");
  auto answered = receive_message(socket_.number());
  if (!answered) fail("");
  if (is(ServerWord::failure, *answered)) throw TierError(answered->text);
  return std::move(answered->text);
}

void Zygote::stop() {
  const std::lock_guard lock(sending_);
  stopped_ = true;
  send_message(socket_.number(), message(ServerWord::stop, ""));
}

}  // namespace lockstep
