// The operations of a program on a model and its replica between passes.
#pragma once

#include "harness/rank/rank_context.h"
#include "scenarios/programs/actions.h"
#include "scenarios/programs/layers.h"

namespace lockstep::scenarios::programs {

// Copies the values that the action loads into parameters and buffers.
void load(const ProgramSpec& c, const Action& action, int rank, LayeredModel& model);

// Doubles the gradients.
void scale(const LayeredModel& model);

// The values of a tensor with other strides.
at::Tensor with_other_strides(const at::Tensor& tensor);

// Gives dense gradients other strides; their values stay.
void relayout(LayeredModel& model);

// Gives parameters and buffers other memory; their values stay.
void renew(LayeredModel& model);

// Converts the parameters to another dtype and back, as torch::nn::Module::to does.
void convert(LayeredModel& model);

// Those of this rank with whom it trains where the world is cut before rank `cut`. Collective over
// them at the first call for them.
Group group_of(const ProgramSpec& c, RankContext& here, int cut);

}  // namespace lockstep::scenarios::programs
