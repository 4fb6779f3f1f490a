#pragma once

#include "ddp/communication_hook.h"

#include <cstdint>
#include <memory>

namespace lockstep {

// The communication hooks that come with the library, for register_comm_hook(). Every rank
// registers the same one. Source: torch.distributed.algorithms.ddp_comm_hooks.default_hooks;
// docs/semantics.md 2.9.

// Multiplies by 1/W and sums, as DistributedDataParallel does without a hook, bit for bit but where
// that divides by W instead (batched_grad_copy, and gradients that are kept as views) and W is no
// power of two.
std::shared_ptr<CommunicationHook> all_reduce_hook();

// Rounds gradients to half precision, divides them there, and sums them there: float32 gradients
// take half the bytes. Gradients of 65,520 and more become infinite; bfloat16 keeps their range and
// has 8 bits of precision. With another hook: that one receives the rounded gradients, and what it
// returns is converted back (PyTorch's fp16_compress_wrapper).
std::shared_ptr<CommunicationHook> fp16_compress_hook(
    std::shared_ptr<CommunicationHook> hook = nullptr);
std::shared_ptr<CommunicationHook> bf16_compress_hook(
    std::shared_ptr<CommunicationHook> hook = nullptr);

// Sends every `chunk` elements of a bucket as bytes: 255 equal steps from the chunk's least value
// to its greatest, and those two numbers. Every rank gathers every rank's and averages them, so it
// receives (1 + 8 / chunk) bytes an element from each: fewer than an all-reduce up to about 8
// ranks. An element of the average is off by at most half a step of its chunk, on average over the
// ranks, and rounding; a chunk that holds an infinity or NaN becomes NaN. `chunk` is at least 1;
// throws UsageError. Source: quantization_perchannel_hook, whose chunks have 512 elements.
std::shared_ptr<CommunicationHook> quantize_hook(std::int64_t chunk = 512);

// Sends nothing: every rank keeps its own gradients. To measure what communication costs.
std::shared_ptr<CommunicationHook> noop_hook();

}  // namespace lockstep
