// One rank's life in a forked process: one case long, or many.
#pragma once

#include "harness/world/forked/play.h"

#include <functional>
#include <optional>
#include <string>

namespace lockstep {

// The exit status of a rank whose program returned, and which left with the others: one that a
// program ending its process by itself does not have.
inline constexpr int kPlayed = 66;

// Runs the program and records how it ended. Returns the exit status of the process: kPlayed for a
// program that returned or refused, 1 for any other. The process must then _exit: the group is not
// destroyed, which blocks while a collective is pending.
int run_rank(const RankTask& task);

// What a rank that goes on living is told of each case.
struct RankOrder {
  const Scenario& scenario;
  Case c;
  const Subject& subject;
  std::chrono::milliseconds limit{};
};

// One rank of a world that plays many cases: its group is made once, and all else is a case's own.
struct StandingRank {
  int rank = 0;
  int size = 1;
  std::span<std::byte> journal;
  std::span<std::byte> store;
  Meeting& meeting;
  std::filesystem::path scratch;
  // Blocks for the next case; nothing at the end.
  std::function<std::optional<RankOrder>()> next;
  // What the case left behind in this process: nothing, or a sentence each; the rank must not be
  // used again then.
  std::function<void(const std::vector<std::string>& left)> done;
};

// Plays cases until there is no next one. Returns the exit status: 0, or 1 after a case that ended
// badly, which is recorded; the process must then _exit.
int serve_rank(const StandingRank& standing);

}  // namespace lockstep
