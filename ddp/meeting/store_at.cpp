#include "ddp/meeting/store_at.h"

#include "ddp/errors.h"
#include "ddp/meeting/addresses.h"
#include "ddp/meeting/in_time.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <netdb.h>
#include <poll.h>
#include <stdexcept>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace lockstep {

namespace {

using Clock = std::chrono::steady_clock;
using StorePointer = c10::intrusive_ptr<c10d::Store>;

constexpr std::chrono::milliseconds kLongestPause{100};

StorePointer tcp_store(const MeetingPoint& point, bool is_server,
                       std::chrono::milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = point.port;
  options.isServer = is_server;
  // We count them ourselves, and can say who is missing.
  options.waitWorkers = false;
  options.timeout = timeout;
  return c10::make_intrusive<c10d::TCPStore>(point.address, options);
}

// 0 where somebody accepts connections there, else why not.
int error_of_connecting(const addrinfo& target, Clock::time_point deadline) {
  const int socket =
      ::socket(target.ai_family, target.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (socket < 0) return errno;
  int error = 0;
  if (::connect(socket, target.ai_addr, target.ai_addrlen) != 0) error = errno;
  if (error == EINPROGRESS) {
    pollfd writable{socket, POLLOUT, 0};
    socklen_t size = sizeof error;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (::poll(&writable, 1, static_cast<int>(std::clamp<long>(left, 1, 3000))) != 1)
      error = ETIMEDOUT;
    else if (::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
      error = errno;
  }
  ::close(socket);
  return error;
}

// Blocks until somebody listens there, or the deadline. c10d would try seldom, print the stack of
// each attempt, and go on for twice the time.
void wait_for_listener(const MeetingPoint& point, Clock::time_point deadline) {
  for (std::chrono::milliseconds pause(5);; pause = std::min(2 * pause, kLongestPause)) {
    const Addresses targets = addresses_of_host(point.address, point.port, SOCK_STREAM);
    std::string why = targets.problem;
    for (const addrinfo* target = targets.first.get(); target != nullptr;
         target = target->ai_next) {
      const int error = error_of_connecting(*target, deadline);
      if (error == 0) return;
      why = std::strerror(error);
    }
    if (Clock::now() + pause >= deadline) {
      throw std::runtime_error("no store answers there: " + holder_of(point) +
                               " has not come, has ended, or is on another host (" + why + ")");
    }
    std::this_thread::sleep_for(pause);
  }
}

StorePointer store_on_port_in_use(const MeetingPoint& point, std::chrono::milliseconds timeout) {
  constexpr std::chrono::milliseconds kLongestAnswer{5000};
  const std::string sentence =
      "rank 0 cannot open the store there: the port is in use (EADDRINUSE), and not by a store "
      "that "
      "answers, but by another program or an earlier run that is not over. Give this run a "
      "MASTER_PORT of its own";
  const auto limit = std::min(kLongestAnswer, timeout);
  try {
    return in_time<StorePointer>(
        limit, [point, limit] { return tcp_store(point, false, limit); }, [&] { return sentence; });
  } catch (const std::exception&) {
    throw std::runtime_error(sentence);
  }
}

// What cannot be resolved is told by who connects.
bool is_address_of_this_host(const std::string& address) {
  const Addresses targets = addresses_of_host(address, 0, SOCK_STREAM);
  if (!targets.problem.empty()) return true;
  for (const addrinfo* target = targets.first.get(); target != nullptr; target = target->ai_next) {
    const int socket = ::socket(target->ai_family, target->ai_socktype | SOCK_CLOEXEC, 0);
    const bool is_bound = socket >= 0 && ::bind(socket, target->ai_addr, target->ai_addrlen) == 0;
    if (socket >= 0) ::close(socket);
    if (is_bound) return true;
  }
  return false;
}

// A service may lead back to this host by an address that is none of its own, and does so quickly.
StorePointer store_of_rank_zero(const MeetingPoint& point, std::chrono::milliseconds timeout) {
  constexpr std::chrono::milliseconds kLongestWayBack{10000};
  const bool is_here = is_address_of_this_host(point.address);
  const std::string where = is_here ? "" : ": " + point.address + " is no address of this host";
  const auto limit = is_here ? timeout : std::min(kLongestWayBack, timeout);
  try {
    return in_time<StorePointer>(
        limit, [point, limit] { return tcp_store(point, true, limit); },
        [] { return std::string("it has opened it, and does not reach it"); });
  } catch (const std::exception& error) {
    const std::string line = first_line(error);
    const bool is_in_use = line.find("EADDRINUSE") != std::string::npos;
    if (is_in_use && is_here) return store_on_port_in_use(point, timeout);
    if (is_in_use)
      throw std::runtime_error("rank 0 cannot open the store" + where +
                               ", where the port is in use (EADDRINUSE) besides");
    throw std::runtime_error("rank 0 cannot open the store there (" + line + ")" + where);
  }
}

StorePointer store_of_another(const MeetingPoint& point, std::chrono::milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  wait_for_listener(point, deadline);
  const std::string sentence =
      "what accepts connections there does not answer as a store: it is another program, or " +
      holder_of(point) + " is stopped or has just ended";
  const auto left = std::max(std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()),
                             std::chrono::milliseconds(1));
  try {
    return in_time<StorePointer>(
        left, [point, left] { return tcp_store(point, false, left); }, [&] { return sentence; });
  } catch (const c10::Error& error) {
    throw std::runtime_error(sentence + " (" + first_line(error) + ")");
  }
}

}  // namespace

StorePointer open_store(const MeetingPoint& point, const Standing& standing,
                        std::chrono::milliseconds timeout) {
  const bool is_mine = standing.rank == 0 && !point.agent_runs_store;
  auto store = is_mine ? store_of_rank_zero(point, timeout) : store_of_another(point, timeout);
  const std::string job = point.job.empty() ? "" : point.job + "/";
  return c10::make_intrusive<c10d::PrefixStore>(
      "lockstep/" + job + "attempt_" + std::to_string(point.attempt), std::move(store));
}

std::string holder_of(const MeetingPoint& point) {
  return point.agent_runs_store ? "the launcher, which holds it," : "rank 0, which holds it,";
}

}  // namespace lockstep
