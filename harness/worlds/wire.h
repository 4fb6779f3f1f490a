// Messages between processes: one line of JSON through the field list of a struct, and, for some,
// bytes behind it. Every field has its range and must be there, since the other process may be a
// stranger's. No torch.
#pragma once

#include "harness/base/fields.h"

#include <string>
#include <string_view>
#include <utility>

namespace lockstep {

// An address of one host as numbers: not a name, and not the one that means every interface.
bool is_address_of_one_host(const std::string& text);
constexpr Allowed address_of_one_host() {
  return {.has_form = is_address_of_one_host, .form = "a numeric address of one host"};
}

// Names of scenarios, subjects, tiers, backends and worlds.
constexpr Allowed wire_name() {
  return line_up_to(200);
}

std::string wire_line(const Json& message);  // text that is not UTF-8 is replaced
// Throws TierError, which begins with `what`.
Json wire_json(std::string_view text, const std::string& what);
[[noreturn]] void refuse_message(const FieldError& error);  // as a TierError of one line

template <Fielded T>
std::string to_wire(const T& message) {
  return wire_line(to_json(message));
}

// Throws TierError: what the message is, the path of the field, what was found and what was
// expected.
template <Fielded T>
T from_wire(std::string_view text, const std::string& what) {
  try {
    return from_json<T>(wire_json(text, what), what, Reading::whole);
  } catch (const FieldError& error) {
    refuse_message(error);
  }
}

// A message with bytes behind its line, and the two parts again. Throws TierError if there is no
// line.
std::string with_bytes(std::string line, std::string_view bytes);
std::pair<std::string_view, std::string_view> line_and_bytes(std::string_view text,
                                                             const std::string& what);

}  // namespace lockstep
