#include "tests/fake_cuda/sockets.h"

#include "tests/fake_cuda/journal.h"

#include <arpa/inet.h>
#include <cerrno>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace lockstep::fake_cuda {

namespace {

constexpr int kLookMilliseconds = 20;

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

int new_socket() {
  const int made = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (made < 0) give_up("no socket can be made");
  return made;
}

void send_at_once(int socket) {
  const int on = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

// False where `stop` was set first.
bool becomes_readable(int socket, const std::atomic<bool>& stop) {
  while (!stop) {
    pollfd look{socket, POLLIN, 0};
    if (::poll(&look, 1, kLookMilliseconds) > 0) return true;
  }
  return false;
}

}  // namespace

Listener listen_on_loopback() {
  Listener made{new_socket(), 0};
  sockaddr_in address = loopback(0);
  socklen_t length = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  if (::bind(made.socket, any, length) != 0 || ::listen(made.socket, 64) != 0 ||
      ::getsockname(made.socket, any, &length) != 0)
    give_up("nothing can listen on loopback");
  made.port = ntohs(address.sin_port);
  return made;
}

int connect_to_loopback(std::uint16_t port) {
  const int made = new_socket();
  const sockaddr_in address = loopback(port);
  if (::connect(made, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    ::close(made);
    return -1;
  }
  send_at_once(made);
  return made;
}

bool receive_whole(int socket, void* data, std::size_t bytes, const std::atomic<bool>& stop) {
  auto* to = static_cast<char*>(data);
  while (bytes > 0) {
    if (!becomes_readable(socket, stop)) return false;
    const ssize_t some = ::recv(socket, to, bytes, 0);
    if (some < 0 && errno == EINTR) continue;
    if (some <= 0) return false;
    to += some;
    bytes -= static_cast<std::size_t>(some);
  }
  return true;
}

bool send_whole(int socket, const void* data, std::size_t bytes) {
  const auto* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t some = ::send(socket, from, bytes, MSG_NOSIGNAL);
    if (some < 0 && errno == EINTR) continue;
    if (some <= 0) return false;
    from += some;
    bytes -= static_cast<std::size_t>(some);
  }
  return true;
}

int accept_one(int listener, const std::atomic<bool>& stop) {
  if (!becomes_readable(listener, stop)) return -1;
  const int made = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  if (made >= 0) send_at_once(made);
  return made;
}

}  // namespace lockstep::fake_cuda
