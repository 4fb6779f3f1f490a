// Generators of Differing cases.
#pragma once

#include "scenarios/replicas/differing.h"

namespace lockstep::scenarios::replicas {

// The words of Difference that are about tensors, and those about options.
const std::vector<std::string>& differences_of_tensors();
const std::vector<std::string>& differences_of_options();

// Each difference alone, on each rank of small worlds.
std::vector<Differing> every_difference();

// One to three differences, of one rank or several, of models that can be trained without them.
rc::Gen<Differing> differing();

}  // namespace lockstep::scenarios::replicas
