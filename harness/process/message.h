// Messages over a stream socket between two processes of this program, so numbers have the host's
// representation: a kind, and a text of any length.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace lockstep {

struct Message {
  uint32_t kind = 0;
  std::string text;
};

// Blocks until all is sent; false if the other end is gone. Never a SIGPIPE.
bool send_message(int socket, const Message& message);

// Blocks until a whole message is there; nothing if the other end is gone, or announces more than
// `bytes_most`. Allocates memory for bytes that have arrived, not for those announced.
std::optional<Message> receive_message(int socket, uint32_t bytes_most = UINT32_MAX);

// One message that arrives in parts, for a process that waits for several sockets at once.
class PartialMessage {
 public:
  explicit PartialMessage(uint32_t bytes_most) : bytes_most_(bytes_most) {}

  // Receives what is there, not beyond its end, and does not block. False once the other end is
  // gone or has announced more than `bytes_most`.
  bool receive_from(int socket);
  // The message, once all of it is there.
  std::optional<Message> whole() const;

 private:
  size_t missing() const;  // bytes; of the head first

  uint32_t bytes_most_;
  std::string bytes_;
};

}  // namespace lockstep
