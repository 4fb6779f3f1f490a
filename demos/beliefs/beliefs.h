// The beliefs of docs/demos.md, each as a demonstration "belief-1", "belief-2", ...
#pragma once

#include "demos/demo.h"

#include <vector>

namespace lockstep {

namespace demos::beliefs {

std::vector<Demo> of_sampling();
std::vector<Demo> of_results();
std::vector<Demo> of_replicas();
std::vector<Demo> of_passes();
std::vector<Demo> of_batch_norm();
std::vector<Demo> of_evaluation();
std::vector<Demo> of_collectives();

}  // namespace demos::beliefs

// All of them, by number.
std::vector<Demo> beliefs();

}  // namespace lockstep
