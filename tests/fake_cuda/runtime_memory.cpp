// CUDA's runtime: memory, and what copies it.
#include "tests/fake_cuda/device.h"
#include "tests/fake_cuda/journal.h"

#include <cstring>
#include <vector>

using lockstep::fake_cuda::current_device;
using lockstep::fake_cuda::device_is_lost;
using lockstep::fake_cuda::Memory;
using lockstep::fake_cuda::memory_of;
using lockstep::fake_cuda::new_memory;
using lockstep::fake_cuda::note_host_wait;
using lockstep::fake_cuda::remembered;
using lockstep::fake_cuda::stream_of;

namespace {

// As CUDA does: from memory of the host that is not pinned it is read before the call returns, and
// into such memory the call waits.
void put_copy(void* to, const void* from, std::size_t bytes, cudaStream_t stream,
              const char* function) {
  const auto place = stream_of(stream);
  const bool reads_pageable = memory_of(from).kind == Memory::kPageable;
  if (reads_pageable) {
    const auto* const begin = static_cast<const char*>(from);
    place->give([to, staged = std::vector<char>(begin, begin + bytes)] {
      if (!device_is_lost()) std::memcpy(to, staged.data(), staged.size());
    });
  } else {
    place->give([to, from, bytes] {
      if (!device_is_lost()) std::memcpy(to, from, bytes);
    });
  }
  if (memory_of(to).kind == Memory::kPageable) {
    note_host_wait(function);
    place->wait();
  }
}

void put_fill(void* begin, int byte, std::size_t bytes, cudaStream_t stream) {
  stream_of(stream)->give([begin, byte, bytes] {
    if (!device_is_lost()) std::memset(begin, byte, bytes);
  });
}

}  // namespace

LOCKSTEP_FAKE_CUDA_API cudaError_t cudaMalloc(void** begin, std::size_t bytes) {
  LOCKSTEP_FAKE_CUDA_CALL("cudaMalloc");
  *begin = new_memory(bytes, {Memory::kDevice, current_device()});
  return *begin != nullptr ? cudaSuccess : remembered(cudaErrorMemoryAllocation);
}

// Waits for the device, as CUDA's does.
LOCKSTEP_FAKE_CUDA_API cudaError_t cudaFree(void* begin) {
  LOCKSTEP_FAKE_CUDA_CALL("cudaFree");
  if (begin == nullptr) return cudaSuccess;
  note_host_wait("cudaFree");
  lockstep::fake_cuda::wait_for_device(memory_of(begin).device);
  lockstep::fake_cuda::forget_memory(begin);
  return cudaSuccess;
}

LOCKSTEP_FAKE_CUDA_API cudaError_t cudaHostAlloc(void** begin, std::size_t bytes, unsigned int) {
  LOCKSTEP_FAKE_CUDA_CALL("cudaHostAlloc");
  *begin = new_memory(bytes, {Memory::kPinned, current_device()});
  return *begin != nullptr ? cudaSuccess : remembered(cudaErrorMemoryAllocation);
}

LOCKSTEP_FAKE_CUDA_API cudaError_t cudaFreeHost(void* begin) {
  LOCKSTEP_FAKE_CUDA_CALL("cudaFreeHost");
  lockstep::fake_cuda::forget_memory(begin);
  return cudaSuccess;
}

LOCKSTEP_FAKE_CUDA_API cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  LOCKSTEP_FAKE_CUDA_CALL("cudaMemGetInfo");
  *total = std::size_t{16} << 30;
  *free = *total / 2;
  return cudaSuccess;
}

LOCKSTEP_FAKE_CUDA_API cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* told,
                                                            const void* address) {
  LOCKSTEP_FAKE_CUDA_CALL("cudaPointerGetAttributes");
  *told = {};
  const auto memory = memory_of(address);
  told->device = memory.device;
  switch (memory.kind) {
    case Memory::kPageable:
      told->type = cudaMemoryTypeUnregistered;
      break;
    case Memory::kPinned:
      told->type = cudaMemoryTypeHost;
      break;
    case Memory::kDevice:
      told->type = cudaMemoryTypeDevice;
      break;
  }
  if (memory.kind == Memory::kPageable) told->device = -2;
  if (memory.kind != Memory::kPageable) told->devicePointer = const_cast<void*>(address);
  if (memory.kind != Memory::kDevice) told->hostPointer = const_cast<void*>(address);
  return cudaSuccess;
}

LOCKSTEP_FAKE_CUDA_API cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes,
                                                   cudaMemcpyKind, cudaStream_t stream) {
  LOCKSTEP_FAKE_CUDA_CALL("cudaMemcpyAsync");
  put_copy(to, from, bytes, stream, "cudaMemcpyAsync to pageable memory");
  return cudaSuccess;
}

LOCKSTEP_FAKE_CUDA_API cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int,
                                                       std::size_t bytes, cudaStream_t stream) {
  LOCKSTEP_FAKE_CUDA_CALL("cudaMemcpyPeerAsync");
  put_copy(to, from, bytes, stream, "cudaMemcpyPeerAsync");
  return cudaSuccess;
}

LOCKSTEP_FAKE_CUDA_API cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes,
                                              cudaMemcpyKind) {
  LOCKSTEP_FAKE_CUDA_CALL("cudaMemcpy");
  put_copy(to, from, bytes, nullptr, "cudaMemcpy");
  if (memory_of(to).kind != Memory::kPageable) {
    note_host_wait("cudaMemcpy");
    stream_of(nullptr)->wait();
  }
  return cudaSuccess;
}

LOCKSTEP_FAKE_CUDA_API cudaError_t cudaMemsetAsync(void* begin, int byte, std::size_t bytes,
                                                   cudaStream_t stream) {
  LOCKSTEP_FAKE_CUDA_CALL("cudaMemsetAsync");
  put_fill(begin, byte, bytes, stream);
  return cudaSuccess;
}

LOCKSTEP_FAKE_CUDA_API cudaError_t cudaMemset(void* begin, int byte, std::size_t bytes) {
  LOCKSTEP_FAKE_CUDA_CALL("cudaMemset");
  put_fill(begin, byte, bytes, nullptr);
  return cudaSuccess;
}
