// What the ranks' collectives show of each other: pure functions of a history.
#pragma once

#include "harness/core/history.h"

#include <string>
#include <vector>

namespace lockstep {

// "rank 2", "ranks 0, 3".
std::string ranks_text(const std::vector<int>& ranks);

// "allreduce of 6 float32", with the root where there is one; "allreduce of 6 float32 (bucket 0 of
// 2: w, b)" where it is one.
std::string text_of(const Collective& collective);

// "collective #3", with its group where that is not the world's.
std::string place_of(int64_t sequence, const std::string& group);

// For two ranks' collectives of one number in their group's order: nothing if they can belong
// together, else both, side by side.
std::optional<std::string> difference(int rank, const Collective& issued, int other_rank,
                                      const Collective& other);

// Between two ranks alone; these have no number in their group's order.
bool is_point_to_point(const std::string& op);

// The first place in any group's order at which ranks issued different collectives: another
// operation, dtype, root or number of elements. A backend may hang there, abort, or pair the
// tensors up without a word and leave an old tail in the longer one. Operations in which ranks may
// send unequal parts are compared by their name alone, and sends and receives are left out. Nothing
// where all agree as far as they went.
std::optional<std::string> first_mismatch(const History& history);

// Who is missing where: the first collective of any group that some of its ranks issued and others
// never did, and which. Nothing where all of a group issued equally many. The group "world" is
// all ranks; another one is those that issued anything in it.
std::optional<std::string> first_missing(const History& history);

// The rungs around the first place where the ranks of a group part, a line each, under a line of
// headings: of every rank whether its collective is done, waits, was another one or is missing.
// Where there are many ranks, of those that differ and a few others. Empty where no group parts.
std::vector<std::string> ladder(const History& history);

// What each rank of the group issued at the first place where the ranks part, for the ranks that
// the ladder shows; of one that is missing there the last it issued in the group, if any. Empty
// where no group parts.
std::vector<std::pair<int, Collective>> issued_where_ranks_part(const History& history);

// How far each group has come, a line each: "ranks 0,1: rank 0 done with #3; rank 1 in #3". Empty
// where there is one group, whose ladder says it all.
std::vector<std::string> wavefront(const History& history);

}  // namespace lockstep
