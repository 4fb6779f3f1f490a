#pragma once

#include "ddp/comm/communicator.h"
#include "ddp/options.h"

#include <torch/nn/module.h>

#include <optional>
#include <string>

namespace lockstep {

// Why this module cannot be trained with these options over this group at all, if it cannot: values
// out of range, options that contradict each other, names that name nothing, tensors that cannot be
// broadcast or averaged, or tensors on a device that the group does not support. Local; does not
// throw for a caller's mistakes.
std::optional<std::string> find_validation_error(const torch::nn::Module& module,
                                                 const DistributedDataParallelOptions& options,
                                                 const Communicator& communicator);

}  // namespace lockstep
