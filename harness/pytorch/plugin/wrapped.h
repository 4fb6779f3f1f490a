#pragma once

#include "harness/pytorch/plugin/plugin.h"

namespace lockstep::pytorch {

// Collective over `group`, as PyTorch's constructor is.
std::unique_ptr<Wrapped> wrap(const Model& model, const Group& group, const WrapValues& values);

}  // namespace lockstep::pytorch
