// CUDA's runtime: kernels. LibTorch's kernels are compiled for a GPU; a launch finds the kernel's
// name, and what does the same on the host, or gives up.
#include "tests/fake_cuda/device.h"
#include "tests/fake_cuda/journal.h"
#include "tests/fake_cuda/kernels.h"

#include <mutex>
#include <unordered_map>

using lockstep::fake_cuda::give_up;
using lockstep::fake_cuda::stream_of;

namespace {

struct Names {
  std::mutex mutex;
  std::unordered_map<const void*, const char*> names;
};

// By the function that launches on the host; libraries tell as they are loaded.
Names& kernel_names() {
  static auto* const all = new Names;
  return *all;
}

std::string name_of(const void* function) {
  Names& all = kernel_names();
  const std::lock_guard lock(all.mutex);
  const auto found = all.names.find(function);
  return found != all.names.end() ? found->second : "";
}

struct Launch {
  dim3 grid;
  dim3 block;
  std::size_t shared = 0;
  void* stream = nullptr;
};
thread_local Launch t_launch;

}  // namespace

LOCKSTEP_FAKE_CUDA_API void** __cudaRegisterFatBinary(void*) {
  static void* handle = nullptr;
  return &handle;
}
LOCKSTEP_FAKE_CUDA_API void __cudaRegisterFatBinaryEnd(void**) {}
LOCKSTEP_FAKE_CUDA_API void __cudaUnregisterFatBinary(void**) {}
LOCKSTEP_FAKE_CUDA_API char __cudaInitModule(void**) {
  return 1;
}
LOCKSTEP_FAKE_CUDA_API void __cudaRegisterVar(void**, char*, char*, const char*, int, std::size_t,
                                              int, int) {}

LOCKSTEP_FAKE_CUDA_API void __cudaRegisterFunction(void**, const char* function, char*,
                                                   const char* name, int, uint3*, uint3*, dim3*,
                                                   dim3*, int*) {
  Names& all = kernel_names();
  const std::lock_guard lock(all.mutex);
  all.names.emplace(function, name);
}

LOCKSTEP_FAKE_CUDA_API cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  *kernel = static_cast<cudaKernel_t>(const_cast<void*>(function));
  return cudaSuccess;
}

LOCKSTEP_FAKE_CUDA_API unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block,
                                                            std::size_t shared,
                                                            CUstream_st* stream) {
  t_launch = {grid, block, shared, stream};
  return 0;
}

LOCKSTEP_FAKE_CUDA_API cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block,
                                                              std::size_t* shared, void* stream) {
  *grid = t_launch.grid;
  *block = t_launch.block;
  *shared = t_launch.shared;
  *static_cast<void**>(stream) = t_launch.stream;
  return cudaSuccess;
}

LOCKSTEP_FAKE_CUDA_API cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3,
                                                      void** arguments, std::size_t,
                                                      cudaStream_t stream) {
  LOCKSTEP_FAKE_CUDA_CALL("cudaLaunchKernel");
  const std::string name = name_of(static_cast<const void*>(kernel));
  auto work = lockstep::fake_cuda::work_of_kernel({name, grid.y, arguments});
  if (!work) give_up("the kernel " + (name.empty() ? "without a name" : name) + " cannot be run");
  stream_of(stream)->give([work = std::move(work)] {
    if (!lockstep::fake_cuda::device_is_lost()) work();
  });
  return cudaSuccess;
}

LOCKSTEP_FAKE_CUDA_API cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* told, const void*) {
  *told = {};
  told->maxThreadsPerBlock = 1024;
  told->numRegs = 32;
  return cudaSuccess;
}

LOCKSTEP_FAKE_CUDA_API cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) {
  return cudaSuccess;
}

LOCKSTEP_FAKE_CUDA_API cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int* blocks, const void*, int, std::size_t, unsigned int) {
  *blocks = 8;
  return cudaSuccess;
}
