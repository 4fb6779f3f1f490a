// Groups of cases with the same outcome, and their counts. A run counts its own; where runs of
// several machines are merged, their groups are merged and counted again.
#pragma once

#include "harness/core/result.h"

namespace lockstep {

// Adds cases to the group with the same outcome, or as a new group. `groups` stay in the order of
// their first numbers.
void add(std::vector<CaseGroup>& groups, CaseGroup cases);

// Leaves out every case above `number`.
void cut_after(std::vector<CaseGroup>& groups, int number);

// Fills judged, refused, labels, signatures and both worlds from `result.groups`. They must be
// empty before.
void count_groups(Result& result);

// The result once for each of its signatures, as if it had no other; the deciding one first. A
// result that holds, or has no failing case, is returned unchanged.
std::vector<Result> by_signature(const Result& result);

// Failures before inconclusive cases, then by number: the order of signatures in a result.
bool comes_before(const Result::Found& a, const Result::Found& b);

// The claim of the judged cases out of "bit-equal · real: bounded", whose second part is about
// cases whose `values` are real: a part without cases is left out.
std::string claimed(const std::string& exactness, const Result& result);

// "2/5", and back; none for text that is no shard of at most kShardsMost.
inline constexpr int kShardsMost = 10'000;
std::string shard_text(const RunShard& shard);
std::optional<RunShard> shard_of(const std::string& text);

}  // namespace lockstep
