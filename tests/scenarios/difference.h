// The differences between two histories of one case: to the bit, in every rank.
#pragma once

#include "harness/history/history.h"

#include <string>

namespace lockstep::scenarios {

// The elements that a subject sends in each bucket beside gradients; ours has a flag there (Note
// [The flag in the last bucket] in ddp/reducer/pass_buckets.h).
struct Extra {
  int64_t left_elements = 0, right_elements = 0;
};

// In words, the first thing that differs: how a rank ended (it must have returned), something it
// recorded, and, where both subjects tell their buckets, a layout. Empty where there is nothing.
std::string difference(const History& left, const History& right, const Extra& extra = {});

// The layouts that a rank published, one after another.
std::vector<BucketLayout> layouts(const RankHistory& rank);

}  // namespace lockstep::scenarios
