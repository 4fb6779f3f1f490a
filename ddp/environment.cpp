#include "ddp/environment.h"

#include "ddp/errors.h"

#include <charconv>
#include <cstdlib>
#include <limits>

namespace lockstep {

namespace {

std::string required(const EnvironmentLookup& lookup, const std::string& name) {
  const std::optional<std::string> value = lookup(name);
  if (!value || value->empty()) {
    throw UsageError("the environment variable " + name + " is " + (value ? "empty" : "not set") +
                     ": a process group from the environment needs RANK, WORLD_SIZE, MASTER_ADDR "
                     "and MASTER_PORT (torchrun sets them)");
  }
  return *value;
}

int parse(const std::string& name, const std::string& value, int lowest, int highest) {
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

}  // namespace

std::optional<std::string> process_environment(const std::string& name) {
  const char* const value = std::getenv(name.c_str());
  if (value == nullptr) return std::nullopt;
  return std::string(value);
}

Standing standing_from_environment(const EnvironmentLookup& lookup) {
  constexpr int kHighest = std::numeric_limits<int>::max();
  const std::string rank = required(lookup, "RANK");
  const int world_size = parse("WORLD_SIZE", required(lookup, "WORLD_SIZE"), 1, kHighest);
  return {.rank = parse("RANK", rank, 0, world_size - 1), .world_size = world_size};
}

MeetingPoint meeting_point_from_environment(const EnvironmentLookup& lookup) {
  MeetingPoint point;
  point.address = required(lookup, "MASTER_ADDR");
  point.port =
      static_cast<std::uint16_t>(parse("MASTER_PORT", required(lookup, "MASTER_PORT"), 1, 65535));
  point.agent_runs_store = lookup("TORCHELASTIC_USE_AGENT_STORE") == "True";
  if (const auto attempt = lookup("TORCHELASTIC_RESTART_COUNT")) {
    point.attempt =
        parse("TORCHELASTIC_RESTART_COUNT", *attempt, 0, std::numeric_limits<int>::max());
  }
  return point;
}

}  // namespace lockstep
