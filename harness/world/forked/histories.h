// From what servers reply and ranks had in their journals to a history, and to the files that tell
// where its ranks were.
#pragma once

#include "harness/core/frames.h"
#include "harness/core/history.h"
#include "harness/process/child_group.h"
#include "harness/process/stacks.h"
#include "harness/world/forked/conversation.h"

#include <filesystem>
#include <functional>
#include <map>
#include <vector>

namespace lockstep {

// What one rank left in its journal.
struct RankRecords {
  Frames frames;
  bool overflowed = false;
};

// How a rank ended: what its process did decides, and where that was an ordinary exit, or a kill
// after it had said how its program ended, its own word.
Ending merged_ending(const Ending& recorded, bool has_ending, bool overflowed,
                     const ChildEnd& process);

// Of one case, whose ranks are those of `reply`. A rank that wrote where it should not can have
// spoiled its journal; that is the case's doing, but no history can be told from it: TierError.
History history_of(const PlayReply& reply, const std::vector<RankRecords>& by_rank);

// The return addresses of each call site of a rank, by its number.
using Sites = std::map<int, std::vector<uint64_t>>;

// Where ranks part in a history, with where each issued what it did there. A rank's addresses mean
// something in its own process alone.
struct Partings {
  Partings(const History& history, const std::vector<Sites>& by_rank);
  struct Parting {
    int rank = 0;
    Collective issued;
    std::vector<uint64_t> site;
  };
  std::vector<Parting> all;  // of ranks whose site is known
  void add_addresses_of(int rank, std::set<uint64_t>& addresses) const;
};

// call_sites.txt: a line a rank with its stack set in below; no file where there is nothing to
// tell. The headline is the first line that is neither LibTorch's nor of what watches the ranks.
void write_call_sites(const std::filesystem::path& folder, const Partings& partings,
                      const std::function<const KnownFrames&(int rank)>& known);

// rank0.stacks: where the threads of one rank stood.
void write_stacks(const std::filesystem::path& folder, int rank,
                  const std::vector<ThreadStack>& threads, const KnownFrames& known);
void add_addresses_of(const std::vector<ThreadStack>& threads, std::set<uint64_t>& addresses);

}  // namespace lockstep
