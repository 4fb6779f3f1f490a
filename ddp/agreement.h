#pragma once

#include "ddp/communicator.h"
#include "ddp/disagreement.h"

#include <string>
#include <vector>

namespace lockstep {

// Note [Agreement first]
// Gloo aborts a process that receives a longer message than it expects, and adds up equal sizes of
// different meaning without a word. So before tensors travel, ranks exchange something whose size
// nobody can get wrong: the fingerprint of what must be equal, and whether the rank can take part
// at all. Only if these differ, and then on every rank, the declarations themselves follow, padded
// to one length that was exchanged first. Source: docs/semantics.md 0.1.

// Compares every rank's declaration. Collective; blocks. Throws DisagreementError with the same
// sentence on every rank unless all are equal and nobody has an obstacle; CommunicationError. In a
// world of one only the obstacle can be wrong.
void agree(Communicator& communicator, const Declaration& mine);

// Whether every rank has the bits of this rank's tensor, whose size and dtype are equal on all.
// Collective; blocks; throws CommunicationError.
bool is_equal_on_all_ranks(Communicator& communicator, const at::Tensor& mine,
                           const std::string& description);

// Once fingerprints have shown that something is wrong: exchanges the encoded declarations and
// throws DisagreementError with the sentence about their first difference. Collective; blocks;
// throws CommunicationError.
[[noreturn]] void disagree(Communicator& communicator, const std::string& mine);

// Every rank's text, in rank order, of any lengths. Collective; blocks; throws CommunicationError.
std::vector<std::string> gather_texts(Communicator& communicator, const std::string& mine,
                                      const std::string& description);

}  // namespace lockstep
