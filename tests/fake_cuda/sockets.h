#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace lockstep::fake_cuda {

// TCP on loopback. Sockets are closed on exec, and send no SIGPIPE.

// Listens on a port of the system's choice.
struct Listener {
  int socket = -1;
  std::uint16_t port = 0;
};
Listener listen_on_loopback();

// -1 where nobody listens there any more.
int connect_to_loopback(std::uint16_t port);

// Whole or not at all: false where the other end has gone, or `stop` was set.
bool receive_whole(int socket, void* data, std::size_t bytes, const std::atomic<bool>& stop);
bool send_whole(int socket, const void* data, std::size_t bytes);

// -1 where `stop` was set.
int accept_one(int listener, const std::atomic<bool>& stop);

}  // namespace lockstep::fake_cuda
