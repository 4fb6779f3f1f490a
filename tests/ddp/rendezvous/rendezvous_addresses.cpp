#include "tests/ddp/rendezvous/rendezvous_addresses.h"

#include <ATen/ATen.h>

#include <arpa/inet.h>
#include <cstdlib>
#include <netinet/in.h>
#include <stdexcept>
#include <sys/socket.h>
#include <vector>

namespace lockstep::testing {

namespace {

// The socket is never closed.
int port_of_a_socket(bool listens) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (::bind(socket, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    throw std::runtime_error("no socket");
  }
  // From now on others may have the port that say the same, as a store does; until one listens.
  const int yes = 1;
  if (!listens && ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0)
    throw std::runtime_error("no port that a store can have");
  if (listens && ::listen(socket, 8) != 0) throw std::runtime_error("no socket that listens");
  return ::ntohs(address.sin_port);
}

}  // namespace

int free_port() {
  return port_of_a_socket(false);
}

int silent_port() {
  return port_of_a_socket(true);
}

void stand(int rank, int world_size, const std::string& address, int port) {
  ::clearenv();
  ::setenv("RANK", std::to_string(rank).c_str(), 1);
  ::setenv("WORLD_SIZE", std::to_string(world_size).c_str(), 1);
  ::setenv("MASTER_ADDR", address.c_str(), 1);
  ::setenv("MASTER_PORT", std::to_string(port).c_str(), 1);
}

c10::intrusive_ptr<c10d::TCPStore> serve_store() {
  c10d::TCPStoreOptions options;
  options.port = 0;
  options.isServer = true;
  options.waitWorkers = false;
  return c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
}

int sent_to_all(const Group& group, int number) {
  std::vector<at::Tensor> numbers = {at::full({1}, number, at::kLong)};
  group->allreduce(numbers)->wait();
  return static_cast<int>(numbers[0].item<std::int64_t>());
}

}  // namespace lockstep::testing
