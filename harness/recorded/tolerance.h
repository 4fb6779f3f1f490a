// The distance at which a tensor may be from that of one process: measured, and not guessed.
#pragma once

#include "harness/recorded/tensor_points.h"

namespace lockstep::recorded {

// One tensor at one point. A run may be `allowed` away from one process in every element.
struct Tolerance {
  double moved = 0;    // how far its elements moved at most, here or at an earlier step
  double typical = 0;  // how far they would, had they moved as its point's tensors did on average
  double stored = 0;   // the closed bound of storing its largest element in its format
  double allowed() const;
};

// Two computations each round at every operation, where the moved one differs by one move.
inline constexpr double kToleranceFactor = 8;

// The tolerances of the tensors of one process, to be called with its points in order.
class Tolerances {
 public:
  // One for each tensor of `is`; `moved` are the same point of the moved runs, at least one.
  std::vector<Tolerance> at(const TensorPoint& point, const Digests& is,
                            const std::vector<const Digests*>& moved);

 private:
  using Tensor = std::tuple<TensorPoint::Stage, std::string, std::string>;  // stage, of, name
  std::map<Tensor, double> furthest_;
};

}  // namespace lockstep::recorded
