#pragma once

#include "train/zero_redundancy_optimizer.h"

#include <string>
#include <vector>

namespace lockstep::testing {

using ParamGroups = std::vector<torch::optim::OptimizerParamGroup>;

// "sgd", "momentum", "adam", "amsgrad", "adagrad" and "rmsprop".
const std::vector<std::string>& optimizer_kinds();
OptimizerFactory factory(const std::string& kind);

// Five parameters of other sizes, dtypes and strides, the same on every rank.
std::vector<at::Tensor> parameters();

// In two groups, the second with a learning rate of its own.
ParamGroups in_groups(const std::vector<at::Tensor>& all, const OptimizerFactory& make);

// The gradients of a step; the last but one has none in every second step.
void set_gradients(const std::vector<at::Tensor>& all, int step);

// The numbers of each.
std::string text_of(const std::vector<at::Tensor>& all);

// The state of one process after so many steps with the whole optimizer.
std::string trained(const std::string& kind, int steps);

}  // namespace lockstep::testing
