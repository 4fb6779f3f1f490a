#include "ddp/rendezvous/addresses.h"

#include <algorithm>
#include <cerrno>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace lockstep {

Addresses addresses_of_host(const std::string& name, int port, int socket_type) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = socket_type;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(name.c_str(), std::to_string(port).c_str(), &hints, &found);
  Addresses addresses;
  if (error != 0) addresses.problem = ::gai_strerror(error);
  if (error == 0) addresses.first.reset(found);
  return addresses;
}

std::string numeric_text_of(const sockaddr& address, socklen_t size) {
  char text[NI_MAXHOST] = "";
  const int error = ::getnameinfo(&address, size, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
  return error == 0 ? text : "";
}

int error_of_connecting(const addrinfo& target, std::chrono::steady_clock::time_point deadline) {
  const int socket =
      ::socket(target.ai_family, target.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (socket < 0) return errno;
  int error = 0;
  if (::connect(socket, target.ai_addr, target.ai_addrlen) != 0) error = errno;
  if (error == EINPROGRESS) {
    pollfd writable{socket, POLLOUT, 0};
    socklen_t size = sizeof error;
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now())
            .count();
    if (::poll(&writable, 1, static_cast<int>(std::clamp<long>(left, 1, 3000))) != 1)
      error = ETIMEDOUT;
    else if (::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
      error = errno;
  }
  ::close(socket);
  return error;
}

bool accepts_connections(const std::string& host, int port, std::chrono::milliseconds patience) {
  const Addresses targets = addresses_of_host(host, port, SOCK_STREAM);
  for (const addrinfo* target = targets.first.get(); target != nullptr; target = target->ai_next)
    if (error_of_connecting(*target, std::chrono::steady_clock::now() + patience) == 0) return true;
  return false;
}

}  // namespace lockstep
