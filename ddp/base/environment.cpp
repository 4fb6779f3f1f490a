#include "ddp/base/environment.h"

#include "ddp/errors.h"

#include <charconv>
#include <cstdlib>
#include <unistd.h>

namespace lockstep {

std::optional<std::string> process_environment(const std::string& name) {
  const char* const value = std::getenv(name.c_str());
  if (value == nullptr) return std::nullopt;
  return std::string(value);
}

std::string name_of_this_host() {
  char name[256] = "";
  if (::gethostname(name, sizeof name - 1) != 0) throw UsageError("this host has no name");
  return name;
}

std::optional<std::string> value_in(const EnvironmentLookup& lookup, const std::string& name) {
  std::optional<std::string> value = lookup(name);
  if (value && value->empty()) value.reset();
  return value;
}

int whole_number(const std::string& name, const std::string& value, int lowest, int highest) {
  int number = 0;
  const char* const end = value.data() + value.size();
  const auto [stopped_at, error] = std::from_chars(value.data(), end, number);
  if (error != std::errc() || stopped_at != end || number < lowest || number > highest) {
    throw UsageError("the environment variable " + name + " is '" + value +
                     "': expected a whole number from " + std::to_string(lowest) + " to " +
                     std::to_string(highest));
  }
  return number;
}

}  // namespace lockstep
