#pragma once

#include <cstddef>
#include <vector>

namespace lockstep {

// How often each gradient arrives in one backward pass of a graph that never changes: pure
// counting, without torch. The first pass counts; later ones count down, and a gradient is complete
// with its last arrival. With nested passes (recomputation) one gradient may arrive several times.
//
// Local; does not block. Source: static_graph of c10d's Reducer, docs/semantics.md 2.6.
class StaticGraph {
 public:
  explicit StaticGraph(std::size_t gradient_count) : arrivals_(gradient_count, 0) {}

  // The first pass has ended; its counts hold from now on.
  void freeze() { is_frozen_ = true; }
  bool is_frozen() const { return is_frozen_; }

  // Before each pass.
  void begin_pass();

  enum class Arrival { incomplete, complete, unexpected };
  // Before freeze() always incomplete; then unexpected for a gradient that arrives more often than
  // in the first pass.
  Arrival arrive(std::size_t gradient_index);

  // Whether it did not arrive in the first pass.
  bool is_unused(std::size_t gradient_index) const { return arrivals_.at(gradient_index) == 0; }

 private:
  std::vector<int> arrivals_;  // by gradient, of the first pass
  std::vector<int> left_;      // by gradient, of this pass
  bool is_frozen_ = false;
};

}  // namespace lockstep
