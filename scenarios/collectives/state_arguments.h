// The calls of averagers of models and of checkpoints in which one rank has another argument.
#pragma once

#include "harness/worlds/subject.h"
#include "scenarios/collectives/arguments.h"

namespace lockstep::scenarios::collectives {

using Act = std::function<void(bool has_another)>;

at::Tensor numbers(int64_t count, at::ScalarType dtype = at::kDouble);
at::Tensor leaf(int64_t count);

class Multiplied : public Model {
 public:
  Multiplied() : weight_(register_parameter("w", numbers(2))) { register_buffer("b", numbers(1)); }
  at::Tensor forward(const at::Tensor& input) override { return weight_ * input; }

 private:
  at::Tensor weight_;
};

// Collective. A file for all ranks.
std::string path_of_checkpoint(RankContext& here);

// Makes an averager; another rank's options are changed.
Act averaged(RankContext& here, const std::function<void(AveragingOptions&)>& change);

// One averager, whose second call continues behind the first.
Act averaged_gradient(RankContext& here);

// Averages of so many parameters, of so many elements each.
Act averaged_parameters(RankContext& here, int count_of_another, int64_t elements_of_another);

// Averages are due in steps 0 and 2. The other rank continues behind two steps.
Act step_of_average(RankContext& here);

// Saves a checkpoint.
Act saved(RankContext& here, Argument argument);

// Compares an optimizer of two groups that has stepped once, and a sampler.
Act compared(RankContext& here, Argument argument);

// Loads one of two checkpoints, which hold different steps.
Act loaded(RankContext& here, Argument argument);

}  // namespace lockstep::scenarios::collectives
