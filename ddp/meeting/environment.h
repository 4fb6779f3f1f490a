#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace lockstep {

// Environment variables, and what is read from them, without torch. Local; does not block.

// Returns the value of a variable, or nothing if it is not set.
using EnvironmentLookup = std::function<std::optional<std::string>(const std::string& name)>;

// The environment of this process.
std::optional<std::string> process_environment(const std::string& name);

// By which ranks tell whether they are on one host. Throws UsageError if it has no name.
std::string name_of_this_host();

// Where this process stands in the world. 0 <= rank < world_size.
struct Standing {
  int rank = 0;
  int world_size = 1;
};

// Where the world meets.
struct MeetingPoint {
  std::string address;
  std::uint16_t port = 0;
  // torchrun's agent runs the store, and every rank is a client; otherwise rank 0 runs it.
  bool agent_runs_store = false;
  // Of the restarts torchrun made, where its agent's store outlives them; each has its own keys.
  int attempt = 0;
  // What the launcher calls the job, equal on all its ranks; empty where it has no name.
  std::string job;
};

// The value of a variable that is set to something; an empty one is as good as none.
std::optional<std::string> value_in(const EnvironmentLookup& lookup, const std::string& name);

// `value` of the variable `name` as a whole number from `lowest` to `highest`. Throws UsageError
// with the name, what was found and what was expected.
int whole_number(const std::string& name, const std::string& value, int lowest, int highest);

}  // namespace lockstep
