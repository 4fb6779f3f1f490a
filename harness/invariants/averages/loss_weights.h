// How much each term of the ranks' losses counts.
#pragma once

#include "harness/invariants/invariants.h"

namespace lockstep::recorded {

// Whether the losses of a step are averages that the program does not multiply, ones that it
// divides by the number of ranks or by more, or ones all of which it multiplies by that number or
// by more; unknown where a recorder could not tell, or where parts look whole and others divided.
enum class LossWeights { unknown, whole, divided, multiplied };
LossWeights loss_weights_in(const RecordedRun& run, int step);

// True if one part alone of each rank's loss of a step counts whole: where several do, as losses of
// several batches that are added up, a divisor may be theirs.
bool have_one_whole_part(const RecordedRun& run, int step);

// A remark where a term of one rank's losses counts more than one of another's, in most backwards:
// each rank averages over its own number of terms, or multiplies by a number of its own; another
// one where the losses are made of other functions. Counts the backwards that it compared.
Findings terms_weighed_unlike(const RecordedRun& run, size_t& backwards);

// A remark where the ranks' losses have weights of classes, and in most backwards others.
std::optional<Finding> classes_weighed_unlike(const RecordedRun& run);

// A remark where the labels of a loss over the features of all ranks name the first ones on every
// rank.
std::optional<Finding> labels_without_offset(const RecordedRun& run);

}  // namespace lockstep::recorded
