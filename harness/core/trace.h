// What the ranks' collectives show of each other: pure functions of a history.
#pragma once

#include "harness/core/history.h"

namespace lockstep {

// The first place in any group's order at which ranks issued different collectives: another
// operation, dtype, root or number of elements. A backend may hang there, abort, or pair the
// tensors up without a word and leave an old tail in the longer one. Operations in which ranks may
// send unequal parts are compared by their name alone. Nothing where all agree as far as they went.
std::optional<std::string> first_mismatch(const History& history);

// Who is missing where: the first collective of any group that some of its ranks issued and others
// never did, and which. Nothing where all of a group issued equally many. The group "world" is
// all ranks; another one is those that issued anything in it.
std::optional<std::string> first_missing(const History& history);

}  // namespace lockstep
