#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace lockstep {

// What a launcher says through environment variables, without torch. Local; does not block.

// Returns the value of a variable, or nothing if it is not set.
using EnvironmentLookup = std::function<std::optional<std::string>(const std::string& name)>;

// The environment of this process.
std::optional<std::string> process_environment(const std::string& name);

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
  // Of the restarts torchrun made; each attempt has its own keys.
  int attempt = 0;
};

// RANK and WORLD_SIZE. Throws UsageError naming the variable that is missing, no number or out of
// range: what was found and what was expected. Source: torchrun.
Standing standing_from_environment(const EnvironmentLookup& lookup);

// MASTER_ADDR and MASTER_PORT (1 to 65535), TORCHELASTIC_USE_AGENT_STORE and
// TORCHELASTIC_RESTART_COUNT. Throws as above.
MeetingPoint meeting_point_from_environment(const EnvironmentLookup& lookup);

}  // namespace lockstep
