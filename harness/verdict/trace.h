// Compares the ranks' collectives with each other: pure functions of a history.
#pragma once

#include "harness/base/table.h"
#include "harness/history/history.h"

#include <map>
#include <string>
#include <vector>

namespace lockstep {

// "rank 2", "ranks 0, 3".
std::string ranks_text(const std::vector<int>& ranks);
std::string ranges_text(const std::vector<int>& ascending);  // "0, 2-4"; "none"

// "allreduce of 6 float32", with the root where there is one; "allreduce of 6 float32 (bucket 0 of
// 2: w, b)" where it is a bucket.
std::string text_of(const Collective& collective);

// "collective #3", with its group where that is not the world's.
std::string place_of(int64_t sequence, const std::string& group);

// For two ranks' collectives with the same sequence number in a group: nothing if they can belong
// together, else both, side by side.
std::optional<std::string> difference(int rank, const Collective& issued, int other_rank,
                                      const Collective& other);

// Between two ranks alone; such operations have no number in their group's order.
bool is_point_to_point(const std::string& op);

// The first place in any group's order at which ranks issued different collectives: another
// operation, dtype, root or number of elements. A backend may hang there, abort, or silently pair
// the tensors and leave an old tail in the longer one. Operations in which ranks may send unequal
// parts are compared by their name alone, and sends and receives are left out. Nothing where all
// agree as far as they went.
std::optional<std::string> first_mismatch(const History& history);

// The place where the ranks of a group diverge: the first of its collectives that its ranks did not
// all issue alike; where a rank of the history is stuck, the first that is not done on all of them,
// as later ones are a consequence. If several groups diverge, it is the one whose ranks issued
// different collectives, else one in which a missing rank waits for nobody in another group.
// Nothing where no group diverges. The group "world" is all ranks; another group is the ranks that
// issued anything in it.
struct FirstDivergence {
  std::string text;          // the missing ranks, the waiting ranks, or what differs
  bool is_mismatch = false;  // ranks issued different collectives
  std::string group;         // and the number of the collective in its order
  int64_t sequence = 0;
  std::map<int, Collective> issued;  // by rank
  std::vector<int> missing;          // the group's ranks that never issued it
};
std::optional<FirstDivergence> first_divergence_point(const History& history);

// The rungs around that place as a table, a row each: for every rank whether its collective is
// done, waits, was another one or is missing. Where there are many ranks, only those that differ
// and a few others. Empty where no group diverges.
Details ladder(const History& history);

// Returns what each rank of the group issued at the first place where the ranks diverge, for the
// ranks that the ladder shows; for a rank that is missing there the last it issued in the group, if
// any. Empty where no group diverges.
std::vector<std::pair<int, Collective>> issued_where_ranks_part(const History& history);

// How far each group has come, a sentence each: "ranks 0,1: rank 0 done with #3; rank 1 in #3".
// Empty where there is only one group, whose ladder shows everything.
Details wavefront(const History& history);

}  // namespace lockstep
