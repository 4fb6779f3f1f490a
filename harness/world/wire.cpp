#include "harness/world/wire.h"

#include "harness/core/characters.h"
#include "harness/core/parse_json.h"
#include "harness/core/tier.h"

#include <algorithm>
#include <arpa/inet.h>
#include <limits>
#include <netdb.h>

namespace lockstep {

namespace {

constexpr size_t kQuotedMost = 80;

std::string shown(const Json& json) {
  auto text = json.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
  if (text.size() > kQuotedMost) text = text.substr(0, kQuotedMost) + "...";
  return text;
}

std::string range_text(int64_t least, int64_t most) {
  return "a whole number from " + std::to_string(least) + " to " + std::to_string(most);
}

bool is_number_within(const Json& json, int64_t least, int64_t most) {
  if (!json.is_number_integer()) return false;
  if (json.is_number_unsigned() &&
      json.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
    return false;
  const auto value = json.get<int64_t>();
  return value >= least && value <= most;
}

}  // namespace

Json wire_json(const std::string& text, const std::string& what) {
  try {
    return parse_json(text, what);
  } catch (const FieldError& error) {
    throw TierError(error.what());
  }
}

bool is_address_of_one_host(const std::string& text) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST;
  addrinfo* found = nullptr;
  if (text.find('\0') != std::string::npos ||
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

WireObject::WireObject(const Json& json, std::string what) : json_(json), what_(std::move(what)) {
  if (!json.is_object()) throw TierError(what_ + " is " + shown(json) + ", expected an object");
}

void WireObject::refuse(const std::string& name, const Json& found,
                        const std::string& expected) const {
  throw TierError(what_ + ": " + shown(name) + " is " + shown(found) + ", expected " + expected);
}

const Json& WireObject::at(const char* name) {
  asked_.insert(name);
  const auto found = json_.find(name);
  if (found == json_.end()) throw TierError(what_ + " has no '" + name + "'");
  return *found;
}

int64_t WireObject::number(const char* name, int64_t least, int64_t most) {
  const Json& found = at(name);
  if (!is_number_within(found, least, most)) refuse(name, found, range_text(least, most));
  return found.get<int64_t>();
}

bool WireObject::flag(const char* name) {
  const Json& found = at(name);
  if (!found.is_boolean()) refuse(name, found, "true or false");
  return found.get<bool>();
}

std::string WireObject::text(const char* name, size_t bytes_most) {
  const Json& found = at(name);
  if (!found.is_string() || found.get_ref<const std::string&>().size() > bytes_most)
    refuse(name, found, "a text of at most " + std::to_string(bytes_most) + " bytes");
  return found.get<std::string>();
}

std::string WireObject::line(const char* name, size_t bytes_most) {
  auto found = text(name, bytes_most);
  if (!is_one_line(found)) refuse(name, found, "one line without control characters");
  return found;
}

std::string WireObject::address(const char* name) {
  constexpr size_t kAddressMost = 64;
  auto found = line(name, kAddressMost);
  if (!is_address_of_one_host(found)) refuse(name, found, "a numeric address of one host");
  return found;
}

const Json& WireObject::list(const char* name, size_t most) {
  const Json& found = at(name);
  if (!found.is_array() || found.size() > most)
    refuse(name, found, "a list of at most " + std::to_string(most));
  return found;
}

WireObject WireObject::object(const char* name) {
  return {at(name), what_ + ", '" + name + "'"};
}

const Json& WireObject::entries(size_t most) const {
  constexpr size_t kNameMost = 200;
  if (json_.size() > most)
    throw TierError(what_ + " has more than " + std::to_string(most) + " entries");
  for (const auto& [name, value] : json_.items())
    if (name.size() > kNameMost || !is_one_line(name))
      throw TierError(what_ + " has an entry whose name is no line of text: " + shown(name));
  return json_;
}

void WireObject::nothing_else() const {
  for (const auto& [name, value] : json_.items())
    if (!asked_.contains(name))
      throw TierError(what_ + " has a field " + shown(name) + ", which is none of its own");
}

int64_t wire_number(const Json& json, const std::string& what, int64_t least, int64_t most) {
  if (!is_number_within(json, least, most))
    throw TierError(what + " is " + shown(json) + ", expected " + range_text(least, most));
  return json.get<int64_t>();
}

}  // namespace lockstep
