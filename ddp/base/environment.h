#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace lockstep {

// Environment variables, and the values parsed from them, without torch. Local; does not block.

// Returns the value of a variable, or nothing if it is not set.
using EnvironmentLookup = std::function<std::optional<std::string>(const std::string& name)>;

// The environment of this process.
std::optional<std::string> process_environment(const std::string& name);

// The name by which ranks recognise that they are on one host. Throws UsageError if it has no name.
std::string name_of_this_host();

// This process's rank and the world size. 0 <= rank < world_size.
struct RankAndSize {
  int rank = 0;
  int world_size = 1;
};

// The address of the rendezvous.
struct RendezvousAddress {
  std::string address;
  std::uint16_t port = 0;
  // torchrun's agent runs the store, and every rank is a client; otherwise rank 0 runs it.
  bool agent_runs_store = false;
  // The number of restarts that torchrun made, if its agent's store outlives them; each has its own
  // keys.
  int attempt = 0;
  // Ranks on other hosts may connect although the address is loopback here, as where a host's own
  // tables have its name as 127.0.1.1: the user has named an interface for them.
  bool expects_other_hosts = false;
  // The launcher's name of the job, equal on all its ranks; empty where it has no name.
  std::string job;
};

// The value of a variable; nothing if it is not set or empty.
std::optional<std::string> value_in(const EnvironmentLookup& lookup, const std::string& name);

// `value` of the variable `name` as a whole number from `lowest` to `highest`. Throws UsageError
// with the name, what was found and what was expected.
int whole_number(const std::string& name, const std::string& value, int lowest, int highest);

}  // namespace lockstep
