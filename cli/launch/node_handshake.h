// What the launchers of two nodes tell each other before there is a launch.
#pragma once

#include "cli/launch/nodes.h"

#include <string>

namespace lockstep::cli {

struct NodeHandshake {
  int node = 0;
  int nodes = 1;
  int ranks = 1;
  std::string host;
  std::string version;
  std::string nonce;  // node 0 proves its secret with it
  std::string proof;
  static constexpr auto fields() {
    return std::tuple{field("node", &NodeHandshake::node, between(0, kNodesMost - 1)),
                      field("nodes", &NodeHandshake::nodes, between(1, kNodesMost)),
                      field("ranks", &NodeHandshake::ranks, between(1, kRanksMost)),
                      field("host", &NodeHandshake::host, line_up_to(256)),
                      field("version", &NodeHandshake::version, line_up_to(256)),
                      field("nonce", &NodeHandshake::nonce, line_up_to(256)),
                      field("proof", &NodeHandshake::proof, line_up_to(256))};
  }
};

struct Welcome {
  RanksOfNode ranks;
  std::string proof;
  static constexpr auto fields() {
    return std::tuple{field("ranks", &Welcome::ranks),
                      field("proof", &Welcome::proof, line_up_to(256))};
  }
};

// This one, without a proof.
NodeHandshake handshake_here(const NodePlace& place, int ranks);

// "node 1 (host b)".
std::string name_of(const NodeHandshake& handshake);

// LOCKSTEP_SECRET, or "".
std::string secret_here();

// Of `secret`, for what the other side has chosen: that of a node to node 0, and that of node 0.
std::string proof_of_node(const std::string& secret, const std::string& challenge);
std::string proof_of_node_zero(const std::string& secret, const std::string& nonce);

bool say(const Descriptor& connection, NodeWord word, const std::string& text);

// Throws UsageError: which node this is, where the rendezvous is, and `why` there is no launch.
[[noreturn]] void fail(const NodePlace& place, const std::string& why);

}  // namespace lockstep::cli
