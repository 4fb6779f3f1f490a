// The tensors of a training at the points where a run of several ranks and one of one process
// should hold the same, whatever the number of micro-batches.
#pragma once

#include "harness/recorded/recorded_run.h"

#include <map>
#include <set>

namespace lockstep::recorded {

// In the order in which they come.
struct TensorPoint {
  enum class Stage { construction, buffers, gradients, parameters };
  int step = 0;
  Stage stage = Stage::construction;
  std::string of;  // "model 0"
  auto operator<=>(const TensorPoint&) const = default;

  Moment moment() const;
  std::string what() const;  // "gradients of model 0"
};

// Digests with their elements: parameters after construction and after each update, buffers before
// the first forward of each step, and the gradients of the step, if its last backward was
// synchronised or the rank is alone. They are those that the backward left, and for the models of
// `by_update` those that the update took, which may have been clipped.
std::map<TensorPoint, const Digests*> tensor_points(const Rank& rank,
                                                    const std::set<std::string>& by_update = {});

}  // namespace lockstep::recorded
