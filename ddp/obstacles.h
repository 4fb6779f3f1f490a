#pragma once

#include "ddp/communicator.h"
#include "ddp/options.h"

#include <torch/nn/module.h>

#include <optional>
#include <string>

namespace lockstep {

// Why this module cannot be trained with these options over this group at all, if it cannot: values
// out of range, options that contradict each other, names that name nothing, tensors that cannot
// be broadcast or averaged, or that are where the group does not reach. Local; does not throw for
// anything a caller may have got wrong.
std::optional<std::string> find_obstacle(const torch::nn::Module& module,
                                         const DistributedDataParallelOptions& options,
                                         const Communicator& communicator);

}  // namespace lockstep
