#include "cli/launch/node_handshake.h"

#include "cli/known.h"
#include "cli/usage.h"
#include "harness/process/message.h"
#include "harness/worlds/launched/remotes.h"

#include <array>
#include <cstdlib>
#include <unistd.h>

namespace lockstep::cli {

NodeHandshake handshake_here(const NodePlace& place, int ranks) {
  std::array<char, 256> host{};
  const bool is_known = ::gethostname(host.data(), host.size() - 1) == 0;
  return {.node = place.node,
          .nodes = place.count,
          .ranks = ranks,
          .host = is_known ? host.data() : "unknown",
          .version = kVersion};
}

std::string name_of(const NodeHandshake& handshake) {
  return "node " + std::to_string(handshake.node) + " (host " + handshake.host + ")";
}

std::string secret_here() {
  const char* const given = std::getenv(kSecretVariable);
  return given ? given : "";
}

std::string proof_of_node(const std::string& secret, const std::string& challenge) {
  return proof_for(secret, "node\n" + challenge);
}

std::string proof_of_node_zero(const std::string& secret, const std::string& nonce) {
  return proof_for(secret, "node 0\n" + nonce);
}

bool say(const Descriptor& connection, NodeWord word, const std::string& text) {
  return send_message(connection.number(), {static_cast<uint32_t>(word), text});
}

void fail(const NodePlace& place, const std::string& why) {
  throw UsageError("launch: node " + std::to_string(place.node) + " of " +
                   std::to_string(place.count) + " at " + place.host + ":" +
                   std::to_string(place.port) + ": " + why);
}

}  // namespace lockstep::cli
