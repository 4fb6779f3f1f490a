// CUDA's runtime: devices, errors, and what is asked of them.
#include "tests/fake_cuda/device.h"
#include "tests/fake_cuda/journal.h"

#include <cstdio>
#include <cstring>

using lockstep::fake_cuda::current_device;
using lockstep::fake_cuda::device_count;
using lockstep::fake_cuda::place_of_device;
using lockstep::fake_cuda::remembered;

namespace {

constexpr std::size_t kMemory = std::size_t{16} << 30;
constexpr int kMultiprocessors = 132;
constexpr int kThreadsOfMultiprocessor = 2048;

bool exists(int device) {
  return device >= 0 && device < device_count();
}

}  // namespace

LOCKSTEP_FAKE_CUDA_API cudaError_t cudaGetDeviceCount(int* count) {
  LOCKSTEP_FAKE_CUDA_CALL("cudaGetDeviceCount");
  *count = device_count();
  return *count > 0 ? cudaSuccess : remembered(cudaErrorNoDevice);
}

// Answers after the device is lost, too: LibTorch asks in destructors that must not throw, and
// programs that lose their GPU are known to come out of them.
LOCKSTEP_FAKE_CUDA_API cudaError_t cudaGetDevice(int* device) {
  *device = current_device();
  return cudaSuccess;
}

LOCKSTEP_FAKE_CUDA_API cudaError_t cudaSetDevice(int device) {
  LOCKSTEP_FAKE_CUDA_CALL("cudaSetDevice");
  if (!exists(device)) return remembered(cudaErrorInvalidDevice);
  lockstep::fake_cuda::set_current_device(device);
  return cudaSuccess;
}

LOCKSTEP_FAKE_CUDA_API cudaError_t cudaGetDeviceProperties(cudaDeviceProp* told, int device) {
  LOCKSTEP_FAKE_CUDA_CALL("cudaGetDeviceProperties");
  if (!exists(device)) return remembered(cudaErrorInvalidDevice);
  *told = {};
  std::snprintf(told->name, sizeof told->name, "stand-in");
  const int place = place_of_device(device);
  std::memset(told->uuid.bytes, 0x5a, sizeof told->uuid.bytes);
  told->uuid.bytes[15] = static_cast<char>(place);
  told->pciBusID = place + 1;
  told->totalGlobalMem = kMemory;
  told->sharedMemPerBlock = 48 << 10;
  told->sharedMemPerBlockOptin = 227 << 10;
  told->sharedMemPerMultiprocessor = 228 << 10;
  told->regsPerBlock = 64 << 10;
  told->regsPerMultiprocessor = 64 << 10;
  told->warpSize = 32;
  told->maxThreadsPerBlock = 1024;
  told->maxThreadsPerMultiProcessor = kThreadsOfMultiprocessor;
  told->maxBlocksPerMultiProcessor = 32;
  for (int i = 0; i < 3; ++i) {
    told->maxThreadsDim[i] = i < 2 ? 1024 : 64;
    told->maxGridSize[i] = i < 1 ? 2147483647 : 65535;
  }
  told->major = 9;
  told->multiProcessorCount = kMultiprocessors;
  told->l2CacheSize = 50 << 20;
  told->textureAlignment = 512;
  told->canMapHostMemory = 1;
  told->concurrentKernels = 1;
  told->asyncEngineCount = 3;
  told->unifiedAddressing = 1;
  told->streamPrioritiesSupported = 1;
  return cudaSuccess;
}

LOCKSTEP_FAKE_CUDA_API cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute,
                                                          int device) {
  LOCKSTEP_FAKE_CUDA_CALL("cudaDeviceGetAttribute");
  if (!exists(device)) return remembered(cudaErrorInvalidDevice);
  switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor:
      *value = 9;
      break;
    case cudaDevAttrComputeCapabilityMinor:
      *value = 0;
      break;
    case cudaDevAttrMultiProcessorCount:
      *value = kMultiprocessors;
      break;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      *value = kThreadsOfMultiprocessor;
      break;
    case cudaDevAttrMaxThreadsPerBlock:
      *value = 1024;
      break;
    case cudaDevAttrWarpSize:
      *value = 32;
      break;
    default:
      *value = 0;
  }
  return cudaSuccess;
}

LOCKSTEP_FAKE_CUDA_API cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
  LOCKSTEP_FAKE_CUDA_CALL("cudaDeviceGetPCIBusId");
  if (!exists(device)) return remembered(cudaErrorInvalidDevice);
  std::snprintf(text, static_cast<std::size_t>(length), "0000:%02x:00.0",
                place_of_device(device) + 1);
  return cudaSuccess;
}

LOCKSTEP_FAKE_CUDA_API cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  LOCKSTEP_FAKE_CUDA_CALL("cudaDeviceGetStreamPriorityRange");
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = -5;
  return cudaSuccess;
}

// Between devices of one process everything is copied: nobody reaches into a neighbour's memory.
LOCKSTEP_FAKE_CUDA_API cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) {
  LOCKSTEP_FAKE_CUDA_CALL("cudaDeviceCanAccessPeer");
  *can = 0;
  return cudaSuccess;
}

LOCKSTEP_FAKE_CUDA_API cudaError_t cudaDeviceEnablePeerAccess(int, unsigned int) {
  LOCKSTEP_FAKE_CUDA_CALL("cudaDeviceEnablePeerAccess");
  return remembered(cudaErrorInvalidValue);
}

LOCKSTEP_FAKE_CUDA_API cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

LOCKSTEP_FAKE_CUDA_API cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

// There is no driver beneath.
LOCKSTEP_FAKE_CUDA_API cudaError_t
cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned int,
                                 unsigned long long, cudaDriverEntryPointQueryResult* found) {
  lockstep::fake_cuda::note("asked_the_driver_for", symbol);
  *function = nullptr;
  if (found != nullptr) *found = cudaDriverEntryPointSymbolNotFound;
  return cudaErrorSymbolNotFound;
}

LOCKSTEP_FAKE_CUDA_API const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorInvalidValue:
      return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorNoDevice:
      return "cudaErrorNoDevice";
    case cudaErrorInvalidDevice:
      return "cudaErrorInvalidDevice";
    case cudaErrorIllegalAddress:
      return "cudaErrorIllegalAddress";
    case cudaErrorLaunchFailure:
      return "cudaErrorLaunchFailure";
    case cudaErrorECCUncorrectable:
      return "cudaErrorECCUncorrectable";
    case cudaErrorNotReady:
      return "cudaErrorNotReady";
    case cudaErrorNotSupported:
      return "cudaErrorNotSupported";
    case cudaErrorSymbolNotFound:
      return "cudaErrorSymbolNotFound";
    default:
      return "cudaErrorUnknown";
  }
}

LOCKSTEP_FAKE_CUDA_API const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    case cudaErrorIllegalAddress:
      return "an illegal memory access was encountered";
    case cudaErrorLaunchFailure:
      return "unspecified launch failure";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    default:
      return cudaGetErrorName(error);
  }
}
