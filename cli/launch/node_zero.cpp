#include "cli/launch/node_zero.h"

#include "cli/launch/node_handshake.h"
#include "ddp/rendezvous/addresses.h"
#include "ddp/rendezvous/listening.h"
#include "harness/core/text.h"
#include "harness/core/tier.h"
#include "harness/process/message.h"
#include "harness/process/network.h"
#include "harness/process/secret.h"

#include <algorithm>
#include <fcntl.h>
#include <optional>
#include <poll.h>
#include <sys/socket.h>

namespace lockstep::cli {

namespace {

using Clock = std::chrono::steady_clock;

// The numeric address of this end.
std::string own_address_of(const Descriptor& connection) {
  sockaddr_storage own{};
  socklen_t size = sizeof(own);
  auto& address = reinterpret_cast<sockaddr&>(own);
  checked(::getsockname(connection.number(), &address, &size), "the address of a connection");
  return numeric_text_of(address, size);
}

// One that has connected, and has sent its handshake or not yet.
struct Visitor {
  Descriptor connection;
  PartialMessage heard{kNodeBytesMost};
  std::optional<NodeHandshake> handshake;
};

// Node 0, until all have come.
class NodeRendezvous {
 public:
  NodeRendezvous(const NodePlace& place, int ranks, const Descriptor& signals)
      : place_(place),
        own_(handshake_here(place, ranks)),
        signals_(signals),
        listener_(listener_at(place)),
        until_(Clock::now() + place.limit) {}

  Nodes all() {
    while (present().size() + 1 < static_cast<size_t>(place_.count)) {
      if (Clock::now() >= until_) refuse_all(absence());
      wait();
    }
    return welcomed();
  }

 private:
  static Descriptor listener_at(const NodePlace& place) {
    StoreSocket socket;
    try {
      socket = listen_for_store({.address = place.host,
                                 .port = static_cast<uint16_t>(place.port),
                                 .expects_other_hosts = true});
    } catch (const std::exception& error) {
      fail(place, std::string("it cannot listen there: ") + error.what());
    }
    Descriptor listener(socket.number);
    if (!socket.is_point_here)
      fail(place, place.host + " is no address of this host: give all nodes an address of node 0");
    if (socket.number < 0) fail(place, "it cannot listen there: " + socket.problem);
    checked(::fcntl(socket.number, F_SETFL, O_NONBLOCK), "listening for nodes");
    return listener;
  }

  std::vector<const NodeHandshake*> present() const {
    std::vector<const NodeHandshake*> all;
    for (const auto& visitor : visitors_)
      if (visitor.handshake) all.push_back(&*visitor.handshake);
    return all;
  }

  std::string absence() const {
    std::vector<bool> here(static_cast<size_t>(place_.count));
    here[0] = true;
    for (const auto* handshake : present()) here[static_cast<size_t>(handshake->node)] = true;
    std::vector<std::string> came, missing;
    for (size_t node = 0; node < here.size(); ++node)
      (here[node] ? came : missing).push_back(std::to_string(node));
    return "these nodes did not come within " + std::to_string(place_.limit.count()) +
           " ms: " + joined(missing, ", ") + " (these did: " + joined(came, ", ") + ")";
  }

  void wait() {
    std::vector<pollfd> waited{{signals_.number(), POLLIN, 0}, {listener_.number(), POLLIN, 0}};
    for (const auto& visitor : visitors_)
      waited.push_back({visitor.connection.number(), POLLIN, 0});
    ::poll(waited.data(), waited.size(), milliseconds_until(until_));
    if (waited[0].revents != 0) throw Signalled{signal_from(signals_)};
    std::vector<Visitor> kept;
    for (size_t at = 0; at < visitors_.size(); ++at)
      if (waited[at + 2].revents == 0 || receives_from(visitors_[at]))
        kept.push_back(std::move(visitors_[at]));
    visitors_ = std::move(kept);
    check();
    if (waited[1].revents == 0) return;
    Visitor visitor{.connection = accept_from(listener_, Clock::now())};
    if (visitor.connection.number() >= 0 && say(visitor.connection, NodeWord::challenge, nonce_))
      visitors_.push_back(std::move(visitor));
  }

  // False for one that is gone or turned away: after its handshake a node says nothing more.
  bool receives_from(Visitor& visitor) {
    if (visitor.handshake || !visitor.heard.receive_from(visitor.connection.number())) return false;
    const auto message = visitor.heard.whole();
    if (!message) return true;
    if (message->kind != static_cast<uint32_t>(NodeWord::handshake)) return false;
    try {
      visitor.handshake = from_wire<NodeHandshake>(message->text, "a node's handshake");
    } catch (const TierError&) {
      return false;
    }
    if (secret_.empty() || same_proof(visitor.handshake->proof, proof_of_node(secret_, nonce_)))
      return true;
    say(visitor.connection, NodeWord::refusal,
        name_of(*visitor.handshake) +
            " does not prove that it has node 0's LOCKSTEP_SECRET: give all nodes the same one");
    return false;
  }

  // Whether those that came can be the nodes of one launch.
  void check() {
    std::vector<const NodeHandshake*> known{&own_};
    int ranks = own_.ranks;
    for (const auto* handshake : present()) {
      const auto who = name_of(*handshake);
      if (handshake->version != own_.version)
        refuse_all(who + " is Lockstep " + handshake->version + ", and node 0 is Lockstep " +
                   own_.version);
      if (handshake->nodes != own_.nodes)
        refuse_all(who + " was given --nnodes " + std::to_string(handshake->nodes) +
                   ", and node 0 --nnodes " + std::to_string(own_.nodes));
      const auto twin = std::find_if(known.begin(), known.end(), [&](const NodeHandshake* other) {
        return other->node == handshake->node;
      });
      if (twin != known.end())
        refuse_all("two launchers were given --node-rank " + std::to_string(handshake->node) +
                   ", on hosts " + (*twin)->host + " and " + handshake->host);
      known.push_back(handshake);
      ranks += handshake->ranks;
    }
    if (ranks > kRanksMost)
      refuse_all("all nodes together have " + std::to_string(ranks) + " ranks, at most " +
                 std::to_string(kRanksMost) + " are allowed");
  }

  [[noreturn]] void refuse_all(const std::string& why) {
    for (const auto& visitor : visitors_) say(visitor.connection, NodeWord::refusal, why);
    fail(place_, why);
  }

  Nodes welcomed() {
    std::sort(visitors_.begin(), visitors_.end(), [](const Visitor& one, const Visitor& other) {
      return one.handshake.has_value() &&
             (!other.handshake || one.handshake->node < other.handshake->node);
    });
    visitors_.resize(static_cast<size_t>(place_.count) - 1);  // strangers that said nothing
    Nodes nodes{.own = {.nodes = place_.count,
                        .world_size = own_.ranks,
                        .address = kLoopback,
                        .run_id = fresh_token()}};
    for (const auto& visitor : visitors_) {
      nodes.own.world_size += visitor.handshake->ranks;
      const auto address = own_address_of(visitor.connection);
      if (is_loopback(nodes.own.address)) nodes.own.address = address;
    }
    const auto listener = listen_on(nodes.own.address);
    nodes.own.port = listener.port;
    nodes.store = std::make_unique<ServedStore>(nodes.own.address, listener);
    int first = own_.ranks;
    for (auto& visitor : visitors_) {
      auto theirs = nodes.own;
      theirs.node = visitor.handshake->node;
      theirs.first_rank = first;
      first += visitor.handshake->ranks;
      say(visitor.connection, NodeWord::welcome,
          to_wire(Welcome{theirs, proof_of_node_zero(secret_, visitor.handshake->nonce)}));
      nodes.others.push_back(
          {visitor.handshake->node, visitor.handshake->host, std::move(visitor.connection)});
    }
    return nodes;
  }

  const NodePlace& place_;
  const NodeHandshake own_;
  const Descriptor& signals_;
  const Descriptor listener_;
  const Clock::time_point until_;
  const std::string secret_ = secret_here(), nonce_ = fresh_token();
  std::vector<Visitor> visitors_;
};

}  // namespace

Nodes rendezvous_at_node_zero(const NodePlace& place, int ranks, const Descriptor& signals) {
  return NodeRendezvous(place, ranks, signals).all();
}

}  // namespace lockstep::cli
