// Groups of cases with the same outcome, and their counts. A run counts its own; where runs of
// several machines are merged, their groups are merged and counted again.
#pragma once

#include "harness/cases/result.h"

namespace lockstep {

// Adds cases to the group with the same outcome, or as a new group. `groups` stay in the order of
// their first numbers.
void add(std::vector<CaseGroup>& groups, CaseGroup cases);

// Leaves out every case above `number`.
void cut_after(std::vector<CaseGroup>& groups, int number);

// Fills judged, refused, labels, signatures and both worlds from `result.groups`. They must be
// empty before.
void count_groups(Result& result);

// Counts the cases of one signature as those of another.
void rename_signature(Result& result, const std::string& from, const std::string& to);

// The result once for each of its signatures, as if it had no other; the deciding one first. A
// result that holds, or has no failing case, is returned unchanged.
std::vector<Result> by_signature(const Result& result);

// Failures before inconclusive cases, then by number: the order of signatures in a result.
bool comes_before(const Result::Found& a, const Result::Found& b);

// The exactness of the judged cases out of "bit-equal · real: bounded", whose second part is about
// cases whose `values` are real: a part without cases is left out.
std::string claimed(const std::string& exactness, const Result& result);

// The label of drawn cases, where their scenario requires shares; only these have its labels, and
// of refused cases these are the only ones.
inline constexpr char kDrawn[] = "drawn";

// Fewer drawn cases are too few to judge shares.
inline constexpr int64_t kDrawnForShares = 25;

// A share is missed where a generator that has it would draw so few cases less often than this.
inline constexpr double kChance = 0.01;

int64_t count_of(const std::string& label, const Result& result);

// The required shares that the result's drawn cases do not have; none where they are too few.
std::vector<RequiredShare> missed_shares(const Result& result);

// "real values: 3 of 160 drawn cases (2 %), at least 10 % required".
std::string share_text(const RequiredShare& share, const Result& result);

// Makes a result of Lockstep's own subject that passed and misses a share a failure without a case:
// the generator is at fault. For any other subject the summary alone says so.
void judge_shares(Result& result);

void add(ScheduleCounts& counts, const ScheduleCounts& more);

// "2/5", and back; none for text that is no shard of at most kShardsMost.
inline constexpr int kShardsMost = 10'000;
std::string shard_text(const RunShard& shard);
std::optional<RunShard> shard_of(const std::string& text);

}  // namespace lockstep
