// Shared parts of the fake CUDA: devices, their memory, what went wrong.
#pragma once

#include "tests/fake_cuda/api.h"
#include "tests/fake_cuda/streams.h"

#include <cstddef>
#include <memory>
#include <string>

namespace lockstep::fake_cuda {

// As many as LOCKSTEP_FAKE_CUDA_DEVICES says, 8 without it, of which CUDA_VISIBLE_DEVICES shows
// some.
int device_count();
// The machine's number of the device that is shown as `index`.
int place_of_device(int index);
int current_device();
void set_current_device(int index);
// True if this process has used the device, which costs memory there.
bool is_touched(int index);
void touch(int index);

// The device's memory is the host's, and this knows which is which.
enum class Memory { kPageable, kPinned, kDevice };
struct MemoryKind {
  Memory kind = Memory::kPageable;
  int device = 0;
};
void* new_memory(std::size_t bytes, MemoryKind kind);
void forget_memory(void* begin);
MemoryKind memory_of(const void* address);

// The stream that a handle means; that of null is the current device's.
std::shared_ptr<Stream> stream_of(cudaStream_t handle);
// Until all streams of the device are idle.
void wait_for_device(int device);

// A call begins: what it is to return at once, from the faults asked for or from the error that has
// ended the device for this process, as a kernel's bad address does. cudaSuccess: go on.
cudaError_t begin_call(const char* function);
// An error by its name; gives up where there is none.
cudaError_t cuda_error_of(const std::string& name);
// True if an error has ended the device for this process: what spins on it ends.
bool device_is_lost();
// Kept for cudaGetLastError.
cudaError_t remembered(cudaError_t error);

// The host waits here for the device: told in the journal.
void note_host_wait(const char* function);

}  // namespace lockstep::fake_cuda

// In each function of CUDA's: leaves it where it is to fail.
#define LOCKSTEP_FAKE_CUDA_CALL(function)                                                        \
  if (const cudaError_t error = lockstep::fake_cuda::begin_call(function); error != cudaSuccess) \
  return lockstep::fake_cuda::remembered(error)
