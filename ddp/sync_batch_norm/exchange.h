#pragma once

#include "ddp/base/disagreement.h"
#include "ddp/comm/communicator.h"
#include "ddp/sync_batch_norm/statistics.h"

#include <cstdint>
#include <functional>
#include <vector>

namespace lockstep {

// One rank's contribution to a forward of SyncBatchNorm.
struct BatchShare {
  RankDescription description;  // what must be equal on all ranks
  std::int64_t count = 0;       // values per channel; 0 with a validation error
  bool input_needs_gradient = false;
  bool has_backward = false;  // whether its output will require a gradient
  std::int64_t channels = 0;
  // Called unless there is a validation error. Empty for a device, whose statistics are gathered
  // separately: Note [Statistics on a device]. `description` contains the kind of device.
  std::function<BatchStatistics()> statistics;
};

// The result, on every rank.
struct BatchAgreement {
  BatchStatistics whole;             // on a device: only the count
  std::vector<std::int64_t> counts;  // by rank
  bool some_input_needs_gradient = false;
};

// One gather of a fixed size, which no disagreement can change (Note [Agreement first]):
// fingerprint, count and flags, then as many statistics as fit, float64, from ranks without a value
// too. The rest of a layer of more than 512 channels follows in a second gather, if every rank can
// take part. The first gather carries 8,232 bytes per rank. Collective; blocks. Throws
// DisagreementError with the same sentence on every rank; CommunicationError.
BatchAgreement exchange(Communicator& communicator, const BatchShare& mine);

}  // namespace lockstep
