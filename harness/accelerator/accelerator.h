#pragma once

#include "harness/accelerator/stream_order.h"

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <cstddef>
#include <string>
#include <vector>

namespace lockstep {

// A simulated device with streams: tensors of LibTorch's device type PrivateUse1, "accelerator",
// whose memory is the host's and whose operations are LibTorch's for the CPU. An operation runs
// when it is called, on the calling thread; stream_order.h records which orders the program
// requested for what a device would do later, and which ones are missing. docs/accelerator.md has
// the details.

// Registers the device type with this many devices, 1 to 16. Local; once, before the process's
// first backward pass, in which autograd's engine counts devices; and before a fork, if the
// children need them. A second call with the same number does nothing; with another one it throws
// c10::Error.
void use_simulated_accelerator(int devices);

// Device `index`; throws c10::Error if there is no such device.
c10::Device accelerator_device(c10::DeviceIndex index = 0);

// The missing orders of all threads, as they were found, since the process began or
// clear_hazards(). A correct program has none.
std::vector<accelerator::Hazard> hazards();
std::vector<std::string> hazard_sentences();
void clear_hazards();

// How often the host waited for a device, each time with its reason: "item", "blocking copy to the
// host", "event synchronize", or an operation whose result's size depends on values, such as
// "nonzero". `since` is an earlier count.
std::size_t host_wait_count();
std::vector<std::string> host_waits(std::size_t since = 0);

}  // namespace lockstep
