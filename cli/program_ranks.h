// A user's own program as ranks on this host: what `launch` starts and watches over.
#pragma once

#include "harness/process/child_group.h"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::cli {

struct ProgramRanks {
  std::vector<std::string> command;  // a program that can be run, and its arguments
  int count = 1;
  std::string address;  // where a store is served for them
  int port = 0;
  std::filesystem::path folder;  // of our own, where they may tell why they fail
};

// The variables that torchrun would set for one of them. An agent's store means that every rank is
// a client of it: no rank has to find a free port.
std::vector<std::pair<std::string, std::string>> variables_of(const ProgramRanks& ranks, int rank);

// How they ended.
struct ProgramEnd {
  int exit_code = 0;     // of the rank that failed first, or 128 and its signal; 0 where none did
  std::string sentence;  // which one and why, as far as it told; empty where none did. Where all
                         // exited alike without a word, that, and nobody is named
};

// Starts them and blocks until all are gone, and whatever they have started. Their output goes to
// ours, line by line, each with its rank in front; where it cannot be written, for another reason
// than that its reader has gone, the sentence says so, and it is no success. Once one has failed
// the others get two seconds to say something, then SIGTERM, and after ten in all SIGKILL. On
// `socket` come signals to be passed on (PassedSignal); ten seconds after the first, at the second,
// or when the other end of it is gone, all are killed. For a process of one thread that adopts
// orphans.
ProgramEnd run_program_ranks(const ProgramRanks& ranks, int socket);

// How many open files the process needs that watches over so many ranks. It allows itself that many
// where it may, and its ranks what it was allowed before.
int descriptors_for(int ranks);

// What a message with a signal's number as its text is.
inline constexpr uint32_t kPassedSignal = 200;

// What TORCHELASTIC_ERROR_FILE holds: the message in it, or nothing. Pure but for reading it.
std::optional<std::string> error_told_in(const std::filesystem::path& file);

}  // namespace lockstep::cli
