// The nodes of one launch: hosts on each of which `lockstep launch` runs some of the ranks. Node 0
// listens at the rendezvous; the others connect to it, and stay connected until all ranks have
// ended. No torch.
#pragma once

#include "cli/launch/program_ranks.h"
#include "harness/process/descriptor.h"
#include "harness/worlds/served_store.h"

#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace lockstep::cli {

inline constexpr char kLoopback[] = "127.0.0.1";
inline constexpr int kNodesMost = 1024, kRanksMost = 4096;  // of all nodes

struct NodePlace {
  int node = 0;
  int count = 1;     // of nodes
  std::string host;  // where node 0 listens: a name, or a number
  int port = 0;
  std::chrono::milliseconds limit{};  // until all must have come
};

struct OtherNode {
  int node = 0;
  std::string host;  // its name
  Descriptor connection;
};

struct Nodes {
  RanksOfNode own;
  std::vector<OtherNode> others;       // node 0: nodes 1 and up, in order; the others: node 0
  std::unique_ptr<ServedStore> store;  // node 0: for the ranks
};

// A signal arrived before all nodes had come.
struct Signalled {
  int signal = 0;
};

// Collective: every node's launcher calls it, with the number of its own ranks. Blocks until all
// have come, on node 0 at most `place.limit`, on another as long to reach node 0, which then
// decides for all. Throws UsageError with the same reason on every node that came: nodes that did
// not come, two with one number, another number of nodes or version, too many ranks; on one that
// does not prove LOCKSTEP_SECRET where node 0 has one, that; and why node 0 cannot listen or be
// reached. Throws Signalled once `signals` is readable.
Nodes rendezvous_of_nodes(const NodePlace& place, int ranks, const Descriptor& signals);

// Reads one signal of a signalfd.
int signal_from(const Descriptor& signals);

// The messages between the launchers of two nodes.
enum class NodeWord : uint32_t {
  challenge = 300,  // node 0's first: what the other proves its secret with
  handshake,        // of the other: who it is
  welcome,          // once all have come: text of RanksOfNode, with node 0's proof
  refusal,          // or the sentence that says why there is no launch
  failed,           // a rank has failed, or a node is gone: all ranks are to end
  signalled,        // text: the number of a signal that a node passes on to all ranks
  ended,            // to node 0: how the ranks of a node ended; text of a ProgramEnd
  outcome,          // node 0's last: how all did; text of a ProgramEnd
};

inline constexpr uint32_t kNodeBytesMost = 1 << 20;

}  // namespace lockstep::cli
