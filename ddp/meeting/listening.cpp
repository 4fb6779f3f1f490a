#include "ddp/meeting/listening.h"

#include "ddp/errors.h"
#include "ddp/meeting/addresses.h"

#include <cerrno>
#include <cstring>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace lockstep {

namespace {

const std::string kLoopback = "127.0.0.1";

// Of a datagram socket: connecting it chooses a way and sends nothing.
std::string address_towards(const addrinfo& target) {
  const int socket = ::socket(target.ai_family, target.ai_socktype | SOCK_CLOEXEC, 0);
  if (socket < 0) return "";
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  char text[NI_MAXHOST] = "";
  if (::connect(socket, target.ai_addr, target.ai_addrlen) != 0 ||
      ::getsockname(socket, reinterpret_cast<sockaddr*>(&own), &size) != 0 ||
      ::getnameinfo(reinterpret_cast<sockaddr*>(&own), size, text, sizeof text, nullptr, 0,
                    NI_NUMERICHOST) != 0) {
    text[0] = '\0';
  }
  ::close(socket);
  return text;
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

std::string listening_address(const Launch& launch, const MeetingPoint& point,
                              const std::function<std::string(const std::string&)>& route) {
  if (launch.local_world_size == launch.standing.world_size || is_loopback(point.address))
    return kLoopback;
  const std::string address = route(point.address);
  if (!is_loopback(address) || !launch.local_world_size) return address;
  throw UsageError(
      "init_process_group: the world of " + std::to_string(launch.standing.world_size) +
      " ranks has " + std::to_string(*launch.local_world_size) +
      " on this host, and its meeting point " + point.address + " is " + address +
      " here, where no other host comes: give the interface that the hosts have in common as "
      "interface_name or in GLOO_SOCKET_IFNAME, or this host's address as hostname");
}

}  // namespace lockstep
