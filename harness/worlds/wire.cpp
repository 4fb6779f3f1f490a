#include "harness/worlds/wire.h"

#include "harness/base/characters.h"
#include "harness/base/parse_json.h"
#include "harness/cases/tier.h"

#include <arpa/inet.h>
#include <netdb.h>

namespace lockstep {

bool is_address_of_one_host(const std::string& text) {
  constexpr size_t kBytesMost = 64;
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST;
  addrinfo* found = nullptr;
  if (text.size() > kBytesMost || !is_one_line(text) ||
      getaddrinfo(text.c_str(), nullptr, &hints, &found) != 0)
    return false;
  bool is_one = false;
  if (found->ai_family == AF_INET) {
    const auto& address = reinterpret_cast<const sockaddr_in*>(found->ai_addr)->sin_addr;
    is_one = address.s_addr != htonl(INADDR_ANY) && address.s_addr != htonl(INADDR_BROADCAST) &&
             !IN_MULTICAST(ntohl(address.s_addr));
  } else if (found->ai_family == AF_INET6) {
    const auto& address = reinterpret_cast<const sockaddr_in6*>(found->ai_addr)->sin6_addr;
    const bool is_every = IN6_IS_ADDR_V4MAPPED(&address) || IN6_IS_ADDR_UNSPECIFIED(&address);
    is_one = !is_every && !IN6_IS_ADDR_MULTICAST(&address);
  }
  freeaddrinfo(found);
  return is_one;
}

std::string wire_line(const Json& message) {
  return message.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json wire_json(std::string_view text, const std::string& what) {
  try {
    return parse_json(std::string(text), what);
  } catch (const FieldError& error) {
    refuse_message(error);
  }
}

void refuse_message(const FieldError& error) {
  throw TierError(one_line(error.what()));
}

std::string with_bytes(std::string line, std::string_view bytes) {
  line += '\n';
  line += bytes;
  return line;
}

std::pair<std::string_view, std::string_view> line_and_bytes(std::string_view text,
                                                             const std::string& what) {
  const auto end = text.find('\n');
  if (end == std::string_view::npos) throw TierError(what + " is cut off");
  return {text.substr(0, end), text.substr(end + 1)};
}

}  // namespace lockstep
