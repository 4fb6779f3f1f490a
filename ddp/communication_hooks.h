#pragma once

#include "ddp/communication_hook.h"

#include <memory>

namespace lockstep {

// The communication hooks that come with the library, for register_comm_hook(). Every rank
// registers the same one. Source: torch.distributed.algorithms.ddp_comm_hooks.default_hooks;
// docs/semantics.md 2.7.

// Multiplies by 1/W and sums, as DistributedDataParallel does without a hook, bit for bit but where
// that divides by W instead (batched_grad_copy, and gradients that are kept as views) and W is no
// power of two.
std::shared_ptr<CommunicationHook> all_reduce_hook();

// Rounds gradients to half precision, divides them there, and sums them there: float32 gradients
// take half the bytes. Gradients of 65,520 and more become infinite; bfloat16 keeps their range and
// has 8 bits of precision.
std::shared_ptr<CommunicationHook> fp16_compress_hook();
std::shared_ptr<CommunicationHook> bf16_compress_hook();

// Sends nothing: every rank keeps its own gradients. To measure what communication costs.
std::shared_ptr<CommunicationHook> noop_hook();

}  // namespace lockstep
