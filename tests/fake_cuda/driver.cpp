// CUDA's driver, libcuda.so.1, by whose name this library goes: of it LibTorch asks which devices
// this process has touched, so as not to touch others. Declared here, without its header; what is
// not needed gives up whatever its arguments.
#include "tests/fake_cuda/api.h"
#include "tests/fake_cuda/device.h"
#include "tests/fake_cuda/journal.h"

LOCKSTEP_FAKE_CUDA_API int cuDevicePrimaryCtxGetState(int device, unsigned int* flags,
                                                      int* active) {
  *flags = 0;
  *active = lockstep::fake_cuda::is_touched(device) ? 1 : 0;
  return 0;
}

#define LOCKSTEP_FAKE_CUDA_LACKS(function)                                              \
  LOCKSTEP_FAKE_CUDA_API int function() {                                               \
    lockstep::fake_cuda::give_up(#function " was called, for which nothing stands in"); \
  }

LOCKSTEP_FAKE_CUDA_LACKS(cuCtxGetCurrent)
LOCKSTEP_FAKE_CUDA_LACKS(cuCtxSetCurrent)
LOCKSTEP_FAKE_CUDA_LACKS(cuDeviceGet)
LOCKSTEP_FAKE_CUDA_LACKS(cuDeviceGetAttribute)
LOCKSTEP_FAKE_CUDA_LACKS(cuDevicePrimaryCtxRetain)
LOCKSTEP_FAKE_CUDA_LACKS(cuFuncGetAttribute)
LOCKSTEP_FAKE_CUDA_LACKS(cuFuncSetAttribute)
LOCKSTEP_FAKE_CUDA_LACKS(cuFuncSetCacheConfig)
LOCKSTEP_FAKE_CUDA_LACKS(cuGetErrorString)
LOCKSTEP_FAKE_CUDA_LACKS(cuLaunchCooperativeKernel)
LOCKSTEP_FAKE_CUDA_LACKS(cuLaunchKernel)
LOCKSTEP_FAKE_CUDA_LACKS(cuLinkAddData_v2)
LOCKSTEP_FAKE_CUDA_LACKS(cuLinkComplete)
LOCKSTEP_FAKE_CUDA_LACKS(cuLinkCreate_v2)
LOCKSTEP_FAKE_CUDA_LACKS(cuModuleGetFunction)
LOCKSTEP_FAKE_CUDA_LACKS(cuModuleLoad)
LOCKSTEP_FAKE_CUDA_LACKS(cuModuleLoadData)
LOCKSTEP_FAKE_CUDA_LACKS(cuModuleLoadDataEx)
LOCKSTEP_FAKE_CUDA_LACKS(cuModuleUnload)
LOCKSTEP_FAKE_CUDA_LACKS(cuOccupancyMaxActiveBlocksPerMultiprocessor)
LOCKSTEP_FAKE_CUDA_LACKS(cuPointerGetAttribute)
LOCKSTEP_FAKE_CUDA_LACKS(cuTensorMapEncodeTiled)
