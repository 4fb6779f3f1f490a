#pragma once

#include "ddp/base/disagreement.h"
#include "ddp/comm/communicator.h"

#include <string>
#include <vector>

namespace lockstep {

// Note [Agreement first]
// Gloo aborts a process that receives a longer message than it expects, and silently sums messages
// of equal size and different meaning. So before tensors are sent, ranks exchange a message of
// fixed size: the fingerprint of what must be equal, and whether the rank can take part at all.
// Only if these differ, and then on every rank, the descriptions follow, padded to one length that
// was exchanged first. Source: docs/semantics.md 0.1.

// Compares every rank's description. Collective; blocks. Throws DisagreementError with the same
// sentence on every rank unless all are equal and no rank has a validation_error;
// CommunicationError. In a world of one only a validation_error can throw. No rank returns before
// all have called it.
void agree(Communicator& communicator, const RankDescription& mine,
           const std::string& description = "exchange of fingerprints");

// True if every rank has the bits of this rank's tensor, whose size and dtype are equal on all.
// Collective; blocks; throws CommunicationError.
bool is_equal_on_all_ranks(Communicator& communicator, const at::Tensor& mine,
                           const std::string& description);

// Once fingerprints have shown that something is wrong: exchanges the encoded descriptions and
// throws DisagreementError with the sentence about their first difference. Collective; blocks;
// throws CommunicationError.
[[noreturn]] void disagree(Communicator& communicator, const std::string& mine);

// Every rank's text, in rank order, of any lengths. Collective; blocks; throws CommunicationError.
std::vector<std::string> gather_texts(Communicator& communicator, const std::string& mine,
                                      const std::string& description);

}  // namespace lockstep
