// Cases that came to the same, and what they count up to. A run counts its own, and where runs of
// several machines are put together their groups are put together and counted again.
#pragma once

#include "harness/core/result.h"

namespace lockstep {

// Adds cases to the group that is alike, or as a group of their own. `groups` stay in the order of
// their first numbers, and numbers in ascending order.
void add(std::vector<CaseGroup>& groups, CaseGroup cases);

// Leaves out every case above `number`.
void cut_after(std::vector<CaseGroup>& groups, int number);

// Fills judged, refused, labels and both worlds from `result.groups`. Nothing else may be in them
// before.
void count_groups(Result& result);

// What the judged cases claim of "bit-equal · real: bounded", whose second part is about those
// whose `values` are real: nothing of which there was none.
std::string claimed(const std::string& exactness, const Result& result);

// "1-5,7,9-30", and back. The latter gives none where the text is no such list, a number is below 1
// or above `most`, or they do not ascend.
std::string numbers_text(const std::vector<int>& numbers);
std::optional<std::vector<int>> numbers_of(const std::string& text, int64_t most);

// "2/5", and back; none for what is no shard of at most kShardsMost.
inline constexpr int kShardsMost = 10'000;
std::string shard_text(const RunShard& shard);
std::optional<RunShard> shard_of(const std::string& text);

}  // namespace lockstep
