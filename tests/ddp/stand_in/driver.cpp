// CUDA's driver, libcuda.so.1, by whose name this library goes: of it LibTorch asks which devices
// this process has touched, so as not to touch others. Declared here, without its header; what is
// not needed gives up whatever its arguments.
#include "tests/ddp/stand_in/api.h"
#include "tests/ddp/stand_in/device.h"
#include "tests/ddp/stand_in/journal.h"

LOCKSTEP_STAND_IN_API int cuDevicePrimaryCtxGetState(int device, unsigned int* flags, int* active) {
  *flags = 0;
  *active = lockstep::stand_in::is_touched(device) ? 1 : 0;
  return 0;
}

#define LOCKSTEP_STAND_IN_LACKS(function)                                              \
  LOCKSTEP_STAND_IN_API int function() {                                               \
    lockstep::stand_in::give_up(#function " was called, for which nothing stands in"); \
  }

LOCKSTEP_STAND_IN_LACKS(cuCtxGetCurrent)
LOCKSTEP_STAND_IN_LACKS(cuCtxSetCurrent)
LOCKSTEP_STAND_IN_LACKS(cuDeviceGet)
LOCKSTEP_STAND_IN_LACKS(cuDeviceGetAttribute)
LOCKSTEP_STAND_IN_LACKS(cuDevicePrimaryCtxRetain)
LOCKSTEP_STAND_IN_LACKS(cuFuncGetAttribute)
LOCKSTEP_STAND_IN_LACKS(cuFuncSetAttribute)
LOCKSTEP_STAND_IN_LACKS(cuFuncSetCacheConfig)
LOCKSTEP_STAND_IN_LACKS(cuGetErrorString)
LOCKSTEP_STAND_IN_LACKS(cuLaunchCooperativeKernel)
LOCKSTEP_STAND_IN_LACKS(cuLaunchKernel)
LOCKSTEP_STAND_IN_LACKS(cuLinkAddData_v2)
LOCKSTEP_STAND_IN_LACKS(cuLinkComplete)
LOCKSTEP_STAND_IN_LACKS(cuLinkCreate_v2)
LOCKSTEP_STAND_IN_LACKS(cuModuleGetFunction)
LOCKSTEP_STAND_IN_LACKS(cuModuleLoad)
LOCKSTEP_STAND_IN_LACKS(cuModuleLoadData)
LOCKSTEP_STAND_IN_LACKS(cuModuleLoadDataEx)
LOCKSTEP_STAND_IN_LACKS(cuModuleUnload)
LOCKSTEP_STAND_IN_LACKS(cuOccupancyMaxActiveBlocksPerMultiprocessor)
LOCKSTEP_STAND_IN_LACKS(cuPointerGetAttribute)
LOCKSTEP_STAND_IN_LACKS(cuTensorMapEncodeTiled)
