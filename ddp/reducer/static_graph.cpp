#include "ddp/reducer/static_graph.h"

#include <algorithm>

namespace lockstep {

void StaticGraph::begin_pass() {
  if (is_frozen_) {
    left_ = arrivals_;
  } else {
    std::fill(arrivals_.begin(), arrivals_.end(), 0);
  }
}

StaticGraph::Arrival StaticGraph::arrive(std::size_t gradient_index) {
  if (!is_frozen_) {
    ++arrivals_.at(gradient_index);
    return Arrival::incomplete;
  }
  int& left = left_.at(gradient_index);
  if (left == 0) return Arrival::unexpected;
  return --left == 0 ? Arrival::complete : Arrival::incomplete;
}

}  // namespace lockstep
