// Trainings whose ranks update on their own and average the parameters now and then: local SGD.
#pragma once

#include "harness/invariants/rows.h"

#include <map>

namespace lockstep::recorded {

// The models and optimizers whose parameters the program averages between updates, with the first
// update that leaves them different: the ranks' gradients differ then, and before a later update
// the parameters are the same on all ranks, by no update.
std::map<std::string, Moment> averaged_between_updates(const RecordedRun& run);

// True if the gradients of every update, of what no wrapper has, differ between the ranks.
bool takes_own_gradients(const RecordedRun& run);

// True if the ranks, of a row between updates, have in each group of some of them the same
// parameters, which collectives of the group have averaged: hierarchical averages.
bool averaged_in_groups(const RecordedRun& run, const Row& row);

// True if all ranks have the same in a later row of the same parameters, by no update.
bool is_the_same_later(const std::vector<Row>& rows, size_t at);

// The same, or they had it within as many steps as they were apart at most before: what follows the
// last average of all is no longer than a time between two.
bool is_averaged_soon(const std::vector<Row>& rows, size_t at);

// Puts what the ranks have in the row in the place of what they had; the others keep theirs.
void keep_latest(const Row& row, std::vector<const Digests*>& by_rank);

// True if both are there, and have the same values of the same tensors.
bool hold_the_same(const Digests* a, const Digests* b);
bool all_hold_the_same(const std::vector<const Digests*>& by_rank);

// How many tensors are not the same on all ranks that recorded the row.
size_t differing_in(const Row& row);

// The names of the first rank's tensors in a whole row that another rank has other values of, or
// has not.
std::vector<std::string> unlike_the_first(const Row& row);

}  // namespace lockstep::recorded
