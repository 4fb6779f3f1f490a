#include "cli/launch/nodes.h"

#include "cli/launch/node_handshake.h"
#include "cli/launch/node_zero.h"
#include "ddp/rendezvous/addresses.h"
#include "harness/core/tier.h"
#include "harness/process/message.h"
#include "harness/process/network.h"
#include "harness/process/secret.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <optional>
#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

namespace lockstep::cli {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kPause{200};
constexpr std::chrono::seconds kLongestAnswer{5};

// Waits for `descriptor` to be readable, or for the time.
void wait_for(const Descriptor& signals, int descriptor, int milliseconds) {
  std::array<pollfd, 2> waited{pollfd{signals.number(), POLLIN, 0}, pollfd{descriptor, POLLIN, 0}};
  ::poll(waited.data(), waited.size(), milliseconds);
  if (waited[0].revents != 0) throw Signalled{signal_from(signals)};
}

Descriptor connected(const NodePlace& place, const Descriptor& signals) {
  const auto until = Clock::now() + place.limit;
  for (;;) {
    const auto found = addresses_of_host(place.host, place.port, SOCK_STREAM);
    auto why = found.problem;
    for (const auto* target = found.first.get(); target; target = target->ai_next) {
      try {
        return connect_to(numeric_text_of(*target->ai_addr, target->ai_addrlen), place.port,
                          std::min(until, Clock::now() + kLongestAnswer));
      } catch (const TierError& error) {
        why = error.what();
      }
    }
    if (Clock::now() >= until)
      fail(place, "node 0 has not come, or is on another host (" + why + ")");
    wait_for(signals, -1, static_cast<int>(kPause.count()));
  }
}

// Without `until` for as long as the other end is there.
Message next_from(const NodePlace& place, const Descriptor& connection, const Descriptor& signals,
                  std::optional<Clock::time_point> until, const std::string& silence) {
  PartialMessage heard(kNodeBytesMost);
  for (;;) {
    wait_for(signals, connection.number(), until ? milliseconds_until(*until) : -1);
    if (!heard.receive_from(connection.number())) fail(place, silence);
    if (const auto message = heard.whole()) return *message;
    if (until && Clock::now() >= *until) fail(place, silence);
  }
}

Nodes joined_nodes(const NodePlace& place, int ranks, const Descriptor& signals) {
  const auto secret = secret_here();
  auto connection = connected(place, signals);
  const auto challenge =
      next_from(place, connection, signals, Clock::now() + kLongestAnswer,
                "what accepts connections there is no `lockstep launch`, or has ended");
  auto own = handshake_here(place, ranks);
  own.nonce = fresh_token();
  own.proof = proof_of_node(secret, challenge.text);
  say(connection, NodeWord::handshake, to_wire(own));
  const auto reply = next_from(place, connection, signals, {}, "node 0 has ended");
  if (reply.kind == static_cast<uint32_t>(NodeWord::refusal)) fail(place, reply.text);
  const auto welcome = from_wire<Welcome>(reply.text, "node 0's welcome");
  if (!secret.empty() && !same_proof(welcome.proof, proof_of_node_zero(secret, own.nonce)))
    fail(place,
         "node 0 does not prove that it has the LOCKSTEP_SECRET of this one: give all nodes "
         "the same one");
  Nodes nodes{.own = welcome.ranks};
  nodes.others.push_back({0, place.host, std::move(connection)});
  return nodes;
}

Nodes single_node(int ranks) {
  const auto listener = listen_on(kLoopback);
  return {.own = {.world_size = ranks,
                  .address = kLoopback,
                  .port = listener.port,
                  .run_id = fresh_token()},
          .store = std::make_unique<ServedStore>(kLoopback, listener)};
}

}  // namespace

int signal_from(const Descriptor& signals) {
  signalfd_siginfo info{};
  const auto got = ::read(signals.number(), &info, sizeof(info));
  return got == static_cast<ssize_t>(sizeof(info)) ? static_cast<int>(info.ssi_signo) : SIGTERM;
}

Nodes rendezvous_of_nodes(const NodePlace& place, int ranks, const Descriptor& signals) {
  try {
    if (place.count == 1) return single_node(ranks);
    if (place.node == 0) return rendezvous_at_node_zero(place, ranks, signals);
    return joined_nodes(place, ranks, signals);
  } catch (const TierError& error) {
    fail(place, error.what());
  }
}

}  // namespace lockstep::cli
