// Reading messages that another process, possibly a stranger's, has sent: each field is read with
// its range, and a message that holds anything else is refused with a sentence. No torch.
#pragma once

#include "harness/core/json.h"

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace lockstep {

// Throws TierError, which begins with `what`, for text that is no JSON or nested deeper than our
// messages are.
Json wire_json(const std::string& text, const std::string& what);

// An address of one host as numbers: not a name, and not the one that means every interface.
bool is_address_of_one_host(const std::string& text);

// One object of a message. Every getter throws TierError: what the message is, the field, what was
// found and what was expected. `json` outlives it.
class WireObject {
 public:
  WireObject(const Json& json, std::string what);

  int64_t number(const char* name, int64_t least, int64_t most);
  bool flag(const char* name);
  std::string text(const char* name, size_t bytes_most);
  std::string line(const char* name, size_t bytes_most);  // is_one_line() of core
  std::string address(const char* name);                  // is_address_of_one_host()
  const Json& list(const char* name, size_t most);
  WireObject object(const char* name);
  bool has(const char* name) const { return json_.contains(name); }

  // Names and values; each name is a line. For objects whose names are not known beforehand.
  const Json& entries(size_t most) const;

  // After the last getter: throws if there are other fields.
  void nothing_else() const;

  // "a request: 'rank' is 7, expected a whole number from 0 to 3".
  [[noreturn]] void refuse(const std::string& name, const Json& found,
                           const std::string& expected) const;

 private:
  const Json& at(const char* name);

  const Json& json_;
  const std::string what_;
  std::set<std::string> asked_;
};

// An element of a list that is a whole number, or throws TierError.
int64_t wire_number(const Json& json, const std::string& what, int64_t least, int64_t most);

}  // namespace lockstep
