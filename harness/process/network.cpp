#include "harness/process/network.h"

#include "harness/base/text.h"
#include "harness/base/tier_errors.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <ifaddrs.h>
#include <memory>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <set>
#include <sys/socket.h>
#include <sys/time.h>
#include <system_error>

namespace lockstep {

namespace {

using Clock = std::chrono::steady_clock;
using Addresses = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

constexpr int kBacklog = 4096;  // the kernel uses less where its limit is lower

std::string text_of_error(int error) {
  return std::generic_category().message(error);
}

Addresses addresses_of(const std::string& address, int port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0)
    throw TierError("'" + address + "' is no numeric address: " + gai_strerror(error));
  return {found, freeaddrinfo};
}

void set(int socket, int level, int name, int value) {
  checked(setsockopt(socket, level, name, &value, sizeof(value)), "a TCP socket's options");
}

// The kernel probes a silent peer every two seconds, whatever the processes at both ends are doing.
void watch_over(int socket) {
  constexpr int kIdle_s = 5, kBetween_s = 2;
  constexpr auto kSilence_s = static_cast<int>(kSilenceMost.count());
  set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(socket, IPPROTO_TCP, TCP_KEEPIDLE, kIdle_s);
  set(socket, IPPROTO_TCP, TCP_KEEPINTVL, kBetween_s);
  set(socket, IPPROTO_TCP, TCP_KEEPCNT, (kSilence_s - kIdle_s) / kBetween_s);
  set(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, kSilence_s * 1000);
  const timeval most{.tv_sec = kSilence_s, .tv_usec = 0};
  for (const int name : {SO_RCVTIMEO, SO_SNDTIMEO})
    checked(setsockopt(socket, SOL_SOCKET, name, &most, sizeof(most)), "a TCP socket's options");
}

void block(int socket) {
  checked(fcntl(socket, F_SETFL, fcntl(socket, F_GETFL) & ~O_NONBLOCK), "a TCP socket");
}

int port_of(int socket) {
  sockaddr_storage own{};
  socklen_t size = sizeof(own);
  checked(getsockname(socket, reinterpret_cast<sockaddr*>(&own), &size), "a TCP socket's port");
  return ntohs(own.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&own)->sin6_port
                                         : reinterpret_cast<sockaddr_in*>(&own)->sin_port);
}

// 0, or the error.
int error_of_connecting(int socket, const addrinfo& target, Clock::time_point until) {
  if (connect(socket, target.ai_addr, target.ai_addrlen) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  pollfd writable{socket, POLLOUT, 0};
  while (poll(&writable, 1, milliseconds_until(until)) < 1)
    if (Clock::now() >= until) return ETIMEDOUT;
  int error = 0;
  socklen_t size = sizeof(error);
  checked(getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size), "a TCP socket");
  return error;
}

}  // namespace

ListeningSocket listen_on(const std::string& address) {
  const auto own = addresses_of(address, 0);
  ListeningSocket listener{
      .socket = Descriptor(socket(own->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0))};
  const int number = checked(listener.socket.number(), "a TCP socket");
  checked(bind(number, own->ai_addr, own->ai_addrlen), "listening at " + address);
  checked(listen(number, kBacklog), "listening at " + address);
  listener.port = port_of(number);
  return listener;
}

Descriptor accept_from(const Descriptor& listener, Clock::time_point until) {
  for (;;) {
    Descriptor accepted(accept4(listener.number(), nullptr, nullptr, SOCK_CLOEXEC));
    if (accepted.number() >= 0) {
      watch_over(accepted.number());
      return accepted;
    }
    if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
      checked(-1, "waiting for a connection");
    if (Clock::now() >= until) return {};
    pollfd readable{listener.number(), POLLIN, 0};
    poll(&readable, 1, milliseconds_until(until));
  }
}

Descriptor connect_to(const std::string& address, int port, Clock::time_point until) {
  const auto target = addresses_of(address, port);
  Descriptor connected(socket(target->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int number = checked(connected.number(), "a TCP socket");
  if (const int error = error_of_connecting(number, *target, until))
    throw TierError("no connection to " + address + ", port " + std::to_string(port) + ": " +
                    text_of_error(error));
  block(number);
  watch_over(number);
  return connected;
}

std::string why_unreachable(const std::string& host, int port, Clock::time_point until) {
  constexpr std::chrono::seconds kLongestAnswer{3};
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int unknown = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (unknown != 0) return gai_strerror(unknown);
  const Addresses all(found, freeaddrinfo);
  std::string why = "it has no address";
  for (const auto* target = found; target; target = target->ai_next) {
    const Descriptor one(socket(target->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const int error = one.number() < 0
                          ? errno
                          : error_of_connecting(one.number(), *target,
                                                std::min(until, Clock::now() + kLongestAnswer));
    if (error == 0) return "";
    why = text_of_error(error);
  }
  return why;
}

std::string address_of_interface(const std::string& name) {
  ifaddrs* found = nullptr;
  checked(getifaddrs(&found), "the network interfaces of this host");
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> all(found, freeifaddrs);
  std::set<std::string> names;
  for (const auto* one = found; one; one = one->ifa_next) {
    if (!one->ifa_addr || !(one->ifa_flags & IFF_UP)) continue;
    names.insert(one->ifa_name);
    const auto family = one->ifa_addr->sa_family;
    if (name != one->ifa_name || (family != AF_INET && family != AF_INET6)) continue;
    char text[NI_MAXHOST] = "";
    const socklen_t size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    if (getnameinfo(one->ifa_addr, size, text, sizeof(text), nullptr, 0, NI_NUMERICHOST) == 0)
      return text;
  }
  throw TierError("this host has no interface '" + name + "' with an address; it has " +
                  joined({names.begin(), names.end()}, ", "));
}

}  // namespace lockstep
