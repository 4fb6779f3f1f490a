#include "ddp/reducer/parameter_usage.h"

namespace lockstep {

void ParameterUsage::forward_reaches(const std::vector<bool>& reached, bool synchronised,
                                     bool others_are_outstanding) {
  for (std::size_t i = 0; i < unreached_.size(); ++i) {
    reached_locally_[i] = reached_locally_[i] || (reached.at(i) && !synchronised);
    const bool was_unreached = (synchronised && !others_are_outstanding) || unreached_[i];
    unreached_[i] = was_unreached && !reached[i] && !reached_locally_[i];
  }
}

}  // namespace lockstep
