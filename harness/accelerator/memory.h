#pragma once

#include <c10/core/Allocator.h>

namespace lockstep::accelerator {

// Device memory, which is the host's: of the calling thread's current device, from the pool of its
// current stream. New and freed memory is filled with 0xFF, a NaN in every float format, so that a
// use before the first write or after the free shows in the values; freed memory is kept for a
// while in that state.
c10::Allocator* device_memory();

// The same on the given device.
c10::DataPtr allocate_on(c10::DeviceIndex device, std::size_t bytes);

// Host memory that the devices treat as page-locked.
c10::Allocator* pinned_memory();
bool is_pinned(const void* address);

// The device that memory belongs to; throws c10::Error if it belongs to none.
c10::Device device_of(const void* address);

}  // namespace lockstep::accelerator
