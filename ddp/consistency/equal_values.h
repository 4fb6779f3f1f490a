#pragma once

#include "ddp/comm/communicator.h"
#include "ddp/consistency/named_tensor.h"
#include "ddp/consistency/rank_description.h"

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

// A number that equal bits give, and different ones hardly ever do: of the values in order of their
// indices, whatever strides and device they have. Local.
std::uint64_t digest_of(const at::Tensor& tensor);

// Throws DisagreementError, with the same sentence on every rank, unless the bits of all tensors
// are equal on all ranks: about the first element of the first tensor that differs. A name is that
// of the sentence, such as "parameter 'fc.weight'"; names, shapes and dtypes are equal on all
// ranks, and the tensors dense. Collective; blocks; throws CommunicationError.
void require_equal_values(Communicator& communicator, const std::vector<NamedTensor>& tensors,
                          const std::string& description);

// The same for what an instance handles. Buffers that are not broadcast may be each rank's own.
void require_equal_replicas(Communicator& communicator, const ModuleState& state,
                            bool with_buffers);

}  // namespace lockstep
