// The points of a run of several ranks beside those of one process.
#pragma once

#include "harness/invariants/against/against.h"
#include "harness/recorded/tensor_points.h"

#include <deque>

namespace lockstep::recorded {

// One point of all runs.
struct PointRow {
  TensorPoint point;
  std::vector<const Digests*> by_rank, moved;
  const Digests* one = nullptr;
  const Digests* before = nullptr;                         // one process, a step earlier
  std::shared_ptr<const std::deque<Digests>> wholes = {};  // put together from parts
};

// The points that all runs recorded, in order. Tensors that are divided over the ranks are put
// together. `by_update` as tensor_points has it, for the ranks.
std::vector<PointRow> point_rows(const RecordedRun& run, const OneProcess& one,
                                 const std::set<std::string>& by_update = {});

// Why the runs begin with other parameters, so that no difference after it says anything; empty
// where they begin with the same ones.
std::string other_beginning(const std::vector<PointRow>& rows);

}  // namespace lockstep::recorded
