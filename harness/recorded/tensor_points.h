// The tensors of a training at the points where a run of several ranks and one of one process
// should hold the same, whatever the number of micro-batches.
#pragma once

#include "harness/recorded/recorded_run.h"

#include <map>

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
// the first forward of each step, and the gradients that the step's last backward left, if it was
// synchronised or the rank is alone.
std::map<TensorPoint, const Digests*> tensor_points(const Rank& rank);

}  // namespace lockstep::recorded
