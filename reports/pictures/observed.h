// Pictures of what the ranks of a history recorded, whatever the scenario. Each is nothing where
// the history has nothing of the kind.
#pragma once

#include "harness/verdict/verdict.h"
#include "reports/pictures/picture.h"

#include <optional>

namespace lockstep::reports {

// The samples that each rank drew, over time: the records named "samples", a group of columns a
// moment.
std::optional<Picture> index_picture(const History& history);

// The values that every rank held at one moment: a row a rank, a column a record. With `marked`,
// values unlike rank 0's are marked.
enum class Differences { left_alone, marked };
std::optional<Picture> held_picture(const History& history, const Moment& at, Differences how);

// The last moment at which a rank recorded something.
std::optional<Moment> last_moment(const History& history);

// One element of a record over the moments at which the ranks recorded it, a line a rank; three
// moments at least.
std::optional<Picture> series_picture(const History& history, const std::string& name,
                                      size_t element);

// The name of the record that changes most often, running statistics first; "": none changes.
std::string changing_record(const History& history);

// The table of a finding: the ranks' values beside the reference's as bars, or in a grid where some
// are no numbers.
std::optional<Picture> divergence_picture(const Finding& finding);

}  // namespace lockstep::reports
