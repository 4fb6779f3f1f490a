// A user's own program as ranks on this host, started and supervised by `launch`.
#pragma once

#include "harness/process/child_group.h"
#include "harness/worlds/wire.h"

#include <filesystem>
#include <string>
#include <vector>

namespace lockstep::cli {

// What the ranks of one node, that is of one host, have to know of their world.
struct RanksOfNode {
  int node = 0;
  int nodes = 1;
  int first_rank = 0;  // of this node
  int world_size = 1;
  std::string address;  // where a store is served for them
  int port = 0;
  std::string run_id;  // of the launch
  static constexpr auto fields() {
    constexpr int kMost = 1 << 16;
    return std::tuple{field("node", &RanksOfNode::node, between(0, kMost)),
                      field("nodes", &RanksOfNode::nodes, between(1, kMost)),
                      field("first_rank", &RanksOfNode::first_rank, between(0, kMost)),
                      field("world_size", &RanksOfNode::world_size, between(1, kMost)),
                      field("address", &RanksOfNode::address, address_of_one_host()),
                      field("port", &RanksOfNode::port, between(1, 65535)),
                      field("run_id", &RanksOfNode::run_id, line_up_to(256))};
  }
};

struct ProgramRanks {
  std::vector<std::string> command;  // a program that can be run, and its arguments
  int count = 1;                     // on this host
  std::string secret;                // the ranks' LOCKSTEP_SECRET; empty: they have the caller's
  std::filesystem::path folder;      // ours, for the ranks' error files
  std::filesystem::path record;      // their LOCKSTEP_RECORD; empty: they have the caller's
  RanksOfNode is = {};
};

// The variables that torchrun would set for the rank at position `local_rank` of this host. Every
// rank is a client of the agent's store: no rank has to find a free port.
std::vector<std::pair<std::string, std::string>> variables_of(const ProgramRanks& ranks,
                                                              int local_rank);

// How the ranks ended.
struct ProgramEnd {
  int exit_code = 0;     // of the rank that failed first, or 128 and its signal; 0 where none did
  std::string sentence;  // which rank and why, if it reported that; empty where none did. Where all
                         // exited alike without an error, it says so and names no rank
  int64_t failed_at_ns = 0;  // when that rank failed, by its report or its end, since the epoch
  bool is_alike = false;     // all exited alike without an error
  static constexpr auto fields() {
    return std::tuple{field("exit_code", &ProgramEnd::exit_code, between(0, 255)),
                      field("sentence", &ProgramEnd::sentence, text_up_to(1 << 18)),
                      field("failed_at_ns", &ProgramEnd::failed_at_ns),
                      field("is_alike", &ProgramEnd::is_alike)};
  }
};

// Starts the ranks and blocks until they and their descendants have ended. Forwards their output
// line by line, each prefixed with its rank; a write error other than a closed pipe is a failure,
// and the sentence says so. Once a rank has failed the others get two seconds to report errors,
// then SIGTERM, and ten seconds after the failure SIGKILL. Signals to be passed on (kPassedSignal)
// arrive on `socket`; ten seconds after the first, at the second, or when the socket's other end is
// closed, all ranks are killed. When the first rank has failed, says so on `socket` (kRankFailed);
// on kPeerFailed the ranks are ended as if one of them had failed. For a process that adopts
// orphans; throws TierError if it has a second thread.
ProgramEnd run_program_ranks(const ProgramRanks& ranks, int socket);

// Since the epoch, as in the reports of ranks, so that those of several hosts can be compared.
int64_t wall_clock_ns();

// How many open files a process needs to supervise so many ranks. It raises its own limit to that
// where it may; its ranks keep the previous limit.
int descriptors_for(int ranks);

// The kinds of messages: one whose text is a signal's number; that a rank here has failed; that a
// rank elsewhere has.
inline constexpr uint32_t kPassedSignal = 200, kRankFailed = 201, kPeerFailed = 202;

}  // namespace lockstep::cli
