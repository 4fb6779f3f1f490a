#include "scenarios/catalogue.h"

namespace lockstep {

std::vector<Scenario> catalogue() {
  return {
      scenarios::sampler_partitions_the_dataset(),
      scenarios::gradients_match_single_process(),
      scenarios::canary_every_rank_is_rank_zero(),
  };
}

}  // namespace lockstep
