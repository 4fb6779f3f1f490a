// What a Training case must show, step by step: the case translated into the reference's words.
#pragma once

#include "harness/core/history.h"
#include "reference/training.h"
#include "scenarios/cases/network.h"

namespace lockstep::scenarios {

struct ExpectedStep {
  std::vector<at::Tensor> average;             // float64, one for each parameter: the whole batch's
  std::vector<std::vector<at::Tensor>> local;  // [rank][parameter], float64, before averaging
  std::vector<at::Tensor> parameters_after;    // after the step's update, if the case has one
};

// Every step of `c`, starting from rank 0's parameters. Throws Refused for a case that is not exact
// in its dtype, saying why.
std::vector<ExpectedStep> expected_steps(const Training& c);

// `value` as a rank would record it.
TensorValue recorded(const at::Tensor& value, at::ScalarType dtype);

}  // namespace lockstep::scenarios
