// Generators of Hooked cases.
#pragma once

#include "scenarios/hooks/case.h"

#include <rapidcheck.h>

namespace lockstep::scenarios::hooks {

// Every hook but power_sgd; vectors and matrices of few elements, and now and then of thousands.
rc::Gen<Hooked> averaging();
std::vector<Hooked> every_averaging();

// power_sgd on matrices of every shape, some of which it approximates.
rc::Gen<Hooked> approximating();
std::vector<Hooked> every_approximating();

// The steps in which an approximation of gradients that stay the same becomes the best.
inline constexpr int kStepsToConverge = 24;

}  // namespace lockstep::scenarios::hooks
