// The acts of toys with collectives.
#pragma once

#include "harness/rank/rank_context.h"

#include <string>

namespace lockstep {

void all_reduce(RankContext& here, int64_t elements);
// The first half of the ranks and the second, each in a group of its own.
void all_reduce_in_halves(RankContext& here);
// Four ranks split off halves, then the first three a group, then the same once more.
void split_off_groups(RankContext& here);
void train_a_step(RankContext& here);
// A backward pass while LibTorch is set to four intra-op threads, which is undone behind it.
void pass_backward_on_four_threads(RankContext& here, int64_t elements);
void train_a_convolution(RankContext& here);
// Values whose sum shows the order in which it was made.
void all_reduce_reals(RankContext& here);
// Every collective that both backends have.
void all_collectives(RankContext& here);
// The schedule decides which rank comes first.
void race(RankContext& here);
// Rank 0 computes and sets a key; the others poll for it. All record when that was.
void find_in_store(RankContext& here);
// Changes all that a process has one of, and looks whether its own changes are what it finds.
void meddle(RankContext& here);
void compute(RankContext& here, bool before_waiting);
// Polls an all-reduce until it is over, and records how long that took.
void poll(RankContext& here);
// Records when a backward pass began and ended, and when a hook of it ran that computes once.
void pass_backward(RankContext& here);
// Three all-reduces, of which the guilty rank leaves out one, adds one or makes another one.
void part_in(const std::string& how, RankContext& here, bool is_guilty);
void four_rounds(RankContext& here);
// Waits for the second of two all-reduces and looks at the first.
void look_before_waiting(RankContext& here);

}  // namespace lockstep
