// A user's own program as ranks on this host, started and supervised by `launch`.
#pragma once

#include "harness/process/child_group.h"
#include "harness/worlds/wire.h"

#include <filesystem>
#include <string>
#include <vector>

namespace lockstep::cli {

inline constexpr char kLoopback[] = "127.0.0.1";

struct ProgramRanks {
  std::vector<std::string> command;  // a program that can be run, and its arguments
  int count = 1;
  std::string secret;            // the ranks' LOCKSTEP_SECRET; empty: they have the caller's
  std::filesystem::path folder;  // ours, for the ranks' error files
  std::filesystem::path record;  // their LOCKSTEP_RECORD; empty: they have the caller's
  int store_port = 0;            // where a store is served for them, on loopback
  std::string run_id;            // of the launch
};

// The variables that torchrun would set for a rank. Every rank is a client of the agent's store: no
// rank has to find a free port.
std::vector<std::pair<std::string, std::string>> variables_of(const ProgramRanks& ranks, int rank);

// How the ranks ended.
struct ProgramEnd {
  int exit_code = 0;     // of the rank that failed first, or 128 and its signal; 0 where none did
  std::string sentence;  // which rank and why, if it reported that; empty where none did. Where all
                         // exited alike without an error, it says so and names no rank
  static constexpr auto fields() {
    return std::tuple{field("exit_code", &ProgramEnd::exit_code, between(0, 255)),
                      field("sentence", &ProgramEnd::sentence, text_up_to(1 << 18))};
  }
};

// Starts the ranks and blocks until they and their descendants have ended. Forwards their output
// line by line, each prefixed with its rank; a write error other than a closed pipe is a failure,
// and the sentence says so. Once a rank has failed the others get two seconds to report errors,
// then SIGTERM, and ten seconds after the failure SIGKILL. Signals to be passed on (kPassedSignal)
// arrive on `socket`; ten seconds after the first, at the second, or when the socket's other end is
// closed, all ranks are killed. For a process that adopts orphans; throws TierError if it has a
// second thread.
ProgramEnd run_program_ranks(const ProgramRanks& ranks, int socket);

// How many open files a process needs to supervise so many ranks. It raises its own limit to that
// where it may; its ranks keep the previous limit.
int descriptors_for(int ranks);

// The kind of a message whose text is a signal's number.
inline constexpr uint32_t kPassedSignal = 200;

}  // namespace lockstep::cli
