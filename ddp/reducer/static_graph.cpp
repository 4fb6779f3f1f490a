#include "ddp/reducer/static_graph.h"

namespace lockstep {

StaticGraph::Arrival StaticGraph::Pass::arrive(std::size_t gradient_index) {
  int& count = counts_.at(gradient_index);
  if (is_first_) {
    ++count;
    return Arrival::incomplete;
  }
  if (count == 0) return Arrival::unexpected;
  return --count == 0 ? Arrival::complete : Arrival::incomplete;
}

}  // namespace lockstep
