#pragma once

#include "ddp/batch_norm/statistics.h"
#include "ddp/communicator.h"
#include "ddp/disagreement.h"

#include <cstdint>
#include <functional>
#include <vector>

namespace lockstep {

// What a rank brings to a forward of SyncBatchNorm.
struct BatchShare {
  Declaration declaration;  // what must be equal on all ranks
  std::int64_t count = 0;   // values a channel; 0 where there is an obstacle
  bool input_needs_gradient = false;
  bool has_backward = false;  // whether its output will require a gradient
  std::int64_t channels = 0;
  // Asked for unless there is an obstacle. Empty where they are on a device and travel by
  // themselves: Note [Statistics on a device]. The kind of device is declared.
  std::function<BatchStatistics()> statistics;
};

// What all ranks then know.
struct BatchAgreement {
  BatchStatistics whole;             // on a device: the count alone
  std::vector<std::int64_t> counts;  // by rank
  bool some_input_needs_gradient = false;
};

// One gather of a size that no disagreement can change (Note [Agreement first]): fingerprint, count
// and flags, and as many statistics as fit behind them, float64, from ranks without a value too.
// What is left of a layer of more than 512 channels follows in a second one, if every rank can take
// part. A gather carries 8,232 bytes a rank. Collective; blocks. Throws DisagreementError with the
// same sentence on every rank; CommunicationError.
BatchAgreement exchange(Communicator& communicator, const BatchShare& mine);

}  // namespace lockstep
