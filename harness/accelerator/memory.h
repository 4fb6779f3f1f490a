#pragma once

#include <c10/core/Allocator.h>

namespace lockstep::accelerator {

// Devices' memory, which is the host's: of the calling thread's current device, and from the pool
// of its current stream. New memory and freed memory is filled with 0xFF, a NaN in every format of
// floats, so that a use before the first write or after the end shows in the values; what is freed
// is kept for a while, in that state.
c10::Allocator* device_memory();

// The same on the given device.
c10::DataPtr allocate_on(c10::DeviceIndex device, std::size_t bytes);

// Page-locked memory of the host, as far as the devices know.
c10::Allocator* pinned_memory();
bool is_pinned(const void* address);

// The device that memory belongs to; throws c10::Error if it belongs to none.
c10::Device device_of(const void* address);

}  // namespace lockstep::accelerator
