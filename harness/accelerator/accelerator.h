#pragma once

#include "harness/accelerator/stream_order.h"

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <cstddef>
#include <string>
#include <vector>

namespace lockstep {

// A device with streams, without a device: tensors of LibTorch's device type PrivateUse1,
// "accelerator", whose memory is the host's and whose operations are LibTorch's own for the CPU. An
// operation runs when it is called, on the calling thread; what a device would do later, in an
// order of its own, is kept as an account (stream_order.h) that says which orders the program asked
// for, and which it forgot. docs/accelerator.md is the whole story.

// Makes the device type known, with this many devices, 1 to 16. Local; once, before the process's
// first backward pass, whose engine counts devices then; and before a fork, if the children are to
// have them. A second call with the same number does nothing; with another one it throws
// c10::Error.
void use_simulated_accelerator(int devices);

// Device `index`; throws c10::Error if there is no such device.
c10::Device accelerator_device(c10::DeviceIndex index = 0);

// What the program forgot to order, in the order in which it was found, of all threads, since the
// process began or clear_hazards(). A program is right if there is nothing.
std::vector<accelerator::Hazard> hazards();
std::vector<std::string> hazard_sentences();
void clear_hazards();

// How often the host was held up until a device had done something, each with its reason: "item",
// "blocking copy to the host", "event synchronize", or an operation whose result's size depends on
// values, such as "nonzero". `since` is an earlier count.
std::size_t host_wait_count();
std::vector<std::string> host_waits(std::size_t since = 0);

}  // namespace lockstep
