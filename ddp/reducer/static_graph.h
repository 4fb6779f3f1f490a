#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace lockstep {

// How often each gradient arrives in one backward pass of a graph that never changes: pure
// counting, without torch. The first pass counts; later ones count down, and a gradient is complete
// with its last arrival. With nested passes (recomputation) one gradient may arrive several times.
//
// Local; does not block. Source: static_graph of c10d's Reducer, docs/semantics.md 2.6.
class StaticGraph {
 public:
  explicit StaticGraph(std::size_t gradient_count)
      : arrivals_(gradient_count, 0), used_somewhere_(gradient_count, true) {}

  enum class Arrival { incomplete, complete, unexpected };

  // The arrivals of one pass.
  class Pass {
   public:
    explicit Pass(const StaticGraph& graph)
        : is_first_(!graph.is_frozen()), counts_(graph.arrivals_) {}

    // In the first pass always incomplete; later unexpected for a gradient that arrives more often
    // than in the first one.
    Arrival arrive(std::size_t gradient_index);

    // In the first pass: whether it has arrived.
    bool has_arrived(std::size_t gradient_index) const { return counts_.at(gradient_index) > 0; }

   private:
    friend class StaticGraph;
    bool is_first_;
    std::vector<int> counts_;  // by gradient: arrivals of the first pass, or those to come
  };

  // The first pass has ended well; its counts hold from now on, and which parameters some rank used
  // in it.
  void freeze(const Pass& first, std::vector<bool> used_somewhere) {
    arrivals_ = first.counts_;
    used_somewhere_ = std::move(used_somewhere);
    is_frozen_ = true;
  }
  bool is_frozen() const { return is_frozen_; }

  // True if it did not arrive in the first pass of this rank.
  bool is_unused(std::size_t gradient_index) const { return arrivals_.at(gradient_index) == 0; }

  // By gradient: whether some rank used it in the first pass. Before freeze() true.
  const std::vector<bool>& used_somewhere() const { return used_somewhere_; }

 private:
  std::vector<int> arrivals_;  // by gradient, of the first pass
  std::vector<bool> used_somewhere_;
  bool is_frozen_ = false;
};

}  // namespace lockstep
