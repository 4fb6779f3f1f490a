// The collectives of a history by group and number. For trace.h's functions.
#pragma once

#include "harness/history/history.h"

#include <limits>
#include <map>
#include <set>
#include <string>

namespace lockstep {

inline constexpr std::string_view kWorld = "world";  // the group of all ranks

using Rung = std::map<int, Collective>;                         // by rank
using Ladder = std::map<int64_t, Rung>;                         // by sequence number
std::map<std::string, Ladder> ladders(const History& history);  // by group

// True if ranks can issue these two as one collective.
bool match(const Collective& a, const Collective& b);

std::set<int> members_of(const std::string& group, const Ladder& ladder, int world);

// The last collective of `rank` on the rungs up to `most`; null where it issued none of them.
const Collective* last_issued(const Ladder& ladder, int rank,
                              int64_t most = std::numeric_limits<int64_t>::max());

// Returns what differs on a rung; nothing where all collectives on it agree.
std::optional<std::string> mismatch_at(const std::string& group, int64_t sequence,
                                       const Rung& by_rank);

}  // namespace lockstep
