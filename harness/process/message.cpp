#include "harness/process/message.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/socket.h>

namespace lockstep {

namespace {

struct Head {
  uint32_t length = 0;
  uint32_t kind = 0;
};

Head head_of(const std::string& bytes) {
  Head head;
  std::memcpy(&head, bytes.data(), sizeof(head));
  return head;
}

bool send_all(int socket, const void* bytes, size_t size) {
  const auto* at = static_cast<const char*>(bytes);
  while (size > 0) {
    const ssize_t sent = send(socket, at, size, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    at += sent;
    size -= static_cast<size_t>(sent);
  }
  return true;
}

bool receive_all(int socket, void* bytes, size_t size) {
  auto* at = static_cast<char*>(bytes);
  while (size > 0) {
    const ssize_t got = recv(socket, at, size, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    size -= static_cast<size_t>(got);
  }
  return true;
}

}  // namespace

bool send_message(int socket, const Message& message) {
  const Head head{static_cast<uint32_t>(message.text.size()), message.kind};
  std::string bytes(reinterpret_cast<const char*>(&head), sizeof(head));
  bytes += message.text;
  return send_all(socket, bytes.data(), bytes.size());
}

std::optional<Message> receive_message(int socket, uint32_t bytes_most) {
  Head head;
  if (!receive_all(socket, &head, sizeof(head)) || head.length > bytes_most) return {};
  constexpr size_t kPart = size_t{1} << 20;
  Message message{head.kind, ""};
  while (message.text.size() < head.length) {
    const size_t there = message.text.size();
    message.text.resize(std::min<size_t>(head.length, there + kPart));
    if (!receive_all(socket, message.text.data() + there, message.text.size() - there)) return {};
  }
  return message;
}

size_t PartialMessage::missing() const {
  const size_t head = sizeof(Head);
  return (bytes_.size() < head ? head : head + head_of(bytes_).length) - bytes_.size();
}

bool PartialMessage::receive_from(int socket) {
  char part[4096];
  while (bytes_.size() < sizeof(Head) || missing() > 0) {
    const ssize_t got = recv(socket, part, std::min(sizeof(part), missing()), MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return true;
    if (got <= 0) return false;
    bytes_.append(part, static_cast<size_t>(got));
    if (bytes_.size() == sizeof(Head) && head_of(bytes_).length > bytes_most_) return false;
  }
  return true;
}

std::optional<Message> PartialMessage::whole() const {
  if (bytes_.size() < sizeof(Head) || missing() > 0) return {};
  return Message{head_of(bytes_).kind, bytes_.substr(sizeof(Head))};
}

}  // namespace lockstep
