#include "ddp/rendezvous/listening.h"

#include "ddp/errors.h"
#include "ddp/rendezvous/addresses.h"

#include <cerrno>
#include <cstring>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace lockstep {

namespace {

const std::string kLoopback = "127.0.0.1";

// Uses a datagram socket: connecting it chooses a route and sends nothing.
std::string address_towards(const addrinfo& target) {
  const int socket = ::socket(target.ai_family, target.ai_socktype | SOCK_CLOEXEC, 0);
  if (socket < 0) return "";
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  std::string text;
  if (::connect(socket, target.ai_addr, target.ai_addrlen) == 0 &&
      ::getsockname(socket, reinterpret_cast<sockaddr*>(&own), &size) == 0) {
    text = numeric_text_of(reinterpret_cast<sockaddr&>(own), size);
  }
  ::close(socket);
  return text;
}

// Returns 0 or an errno. The store must not use a socket that was bound to another host's address.
int listen_at(const addrinfo& target, StoreSocket& listening) {
  listening.number =
      ::socket(target.ai_family, target.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (listening.number < 0) return errno;
  const int yes = 1;
  ::setsockopt(listening.number, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (::bind(listening.number, target.ai_addr, target.ai_addrlen) == 0 &&
      ::listen(listening.number, SOMAXCONN) == 0)
    return 0;
  const int error = errno;
  ::close(listening.number);
  listening.number = -1;
  return error;
}

// Listens at the first of `targets` of `family` that is this host's. Returns whether there was one.
bool listen_at_own(const addrinfo* targets, int family, StoreSocket& listening) {
  for (const addrinfo* target = targets; target != nullptr; target = target->ai_next) {
    if (target->ai_family != family) continue;
    const int error = listen_at(*target, listening);
    if (error == EADDRNOTAVAIL || error == EAFNOSUPPORT) continue;
    listening.address = numeric_text_of(*target->ai_addr, target->ai_addrlen);
    listening.problem = error == 0 ? "" : std::strerror(error);
    listening.is_in_use = error == EADDRINUSE;
    return true;
  }
  return false;
}

StoreSocket listen_at_own(const std::string& host, int port) {
  const Addresses targets = addresses_of_host(host, port, SOCK_STREAM);
  StoreSocket listening{.address = host, .problem = targets.problem};
  if (!targets.problem.empty()) return listening;
  listening.is_point_here = listen_at_own(targets.first.get(), AF_INET, listening) ||
                            listen_at_own(targets.first.get(), AF_INET6, listening);
  return listening;
}

}  // namespace

std::string address_towards(const std::string& host) {
  const Addresses targets = addresses_of_host(host, 9, SOCK_DGRAM);
  if (!targets.problem.empty()) {
    throw UsageError("the ranks are to meet at '" + host +
                     "', which this host does not know: " + targets.problem);
  }
  for (const addrinfo* target = targets.first.get(); target != nullptr; target = target->ai_next) {
    std::string address = address_towards(*target);
    if (!address.empty()) return address;
  }
  throw UsageError("the ranks are to meet at '" + host +
                   "', to which this host has no way: " + std::strerror(errno));
}

bool is_loopback(const std::string& address) {
  return address == "localhost" || address == "::1" || address.starts_with("127.");
}

StoreSocket listen_for_store(const RendezvousAddress& point) {
  StoreSocket listening = listen_at_own(point.address, point.port);
  if (!listening.is_point_here) {
    listening = listen_at_own(address_towards(point.address), point.port);
    listening.is_point_here = false;
  } else if (point.expects_other_hosts && listening.number >= 0 && is_loopback(listening.address) &&
             !is_loopback(point.address)) {
    ::close(listening.number);
    const std::string loopback = listening.address;
    listening = listen_at_own("0.0.0.0", point.port);
    listening.address = loopback;
  }
  return listening;
}

std::string listening_address(const Launch& launch, const RendezvousAddress& point,
                              const std::function<std::string(const std::string&)>& route) {
  if (launch.local_world_size == launch.position.world_size || is_loopback(point.address))
    return kLoopback;
  const std::string address = route(point.address);
  if (!is_loopback(address) || !launch.local_world_size) return address;
  throw UsageError(
      "init_process_group: the world of " + std::to_string(launch.position.world_size) +
      " ranks has " + std::to_string(*launch.local_world_size) +
      " on this host, and its rendezvous address " + point.address + " is " + address +
      " here, where no other host comes: give the interface that the hosts have in common as "
      "interface_name or in GLOO_SOCKET_IFNAME, or this host's address as hostname");
}

}  // namespace lockstep
