// Turns servers' replies and ranks' journals into a history, and into the files that show where its
// ranks were.
#pragma once

#include "harness/history/frames.h"
#include "harness/history/history.h"
#include "harness/process/child_group.h"
#include "harness/process/stacks.h"
#include "harness/worlds/forked/conversation.h"

#include <filesystem>
#include <functional>
#include <map>
#include <vector>

namespace lockstep {

// The journal of one rank.
struct RankRecords {
  Frames frames;
  bool overflowed = false;
};

// How a rank ended: its process decides; where that was an ordinary exit, or a kill after it had
// recorded how its program ended, its own record does.
Ending merged_ending(const Ending& recorded, bool has_ending, bool overflowed,
                     const ChildEnd& process);

// The history of one case, whose ranks are those of `reply`. A rank that wrote out of bounds can
// have spoiled its journal; that is the case's doing, but no history can be read from it:
// TierError.
History history_of(const CaseReply& reply, const std::vector<RankRecords>& by_rank);

// The return addresses of each call site of a rank, by its number.
using Sites = std::map<int, std::vector<uint64_t>>;

// Where ranks diverge in a history, with the call site of what each issued there. A rank's
// addresses mean something in its own process alone.
struct DivergencePoints {
  DivergencePoints(const History& history, const std::vector<Sites>& by_rank);
  struct DivergencePoint {
    int rank = 0;
    Collective issued;
    std::vector<uint64_t> site;
  };
  std::vector<DivergencePoint> all;  // of ranks whose site is known
  void add_addresses_of(int rank, std::set<uint64_t>& addresses) const;
};

// Writes call_sites.txt: a line for each rank, followed by its stack, indented; no file where no
// site is known. The line ends with the first frame that is neither a library's nor of what watches
// the ranks. Returns the lines of which that is a function of the program.
std::vector<std::string> write_call_sites(const std::filesystem::path& folder,
                                          const DivergencePoints& divergence_points,
                                          const std::function<const KnownFrames&(int rank)>& known);

// Writes rank0.stacks: the stacks of one rank's threads. Returns the story of its own.
std::vector<std::string> write_stacks(const std::filesystem::path& folder, int rank,
                                      const std::vector<ThreadStack>& threads,
                                      const KnownFrames& known);
void add_addresses_of(const std::vector<ThreadStack>& threads, std::set<uint64_t>& addresses);

}  // namespace lockstep
