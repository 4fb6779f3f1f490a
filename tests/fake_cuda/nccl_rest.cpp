// NCCL: what LibTorch names and what nothing here needs. A call says so rather than reach NCCL.
#include "tests/fake_cuda/api.h"
#include "tests/fake_cuda/journal.h"

#define LOCKSTEP_FAKE_CUDA_LACKS(function, ...)                                         \
  LOCKSTEP_FAKE_CUDA_API ncclResult_t function(__VA_ARGS__) {                           \
    lockstep::fake_cuda::give_up(#function " was called, for which nothing stands in"); \
  }

LOCKSTEP_FAKE_CUDA_LACKS(ncclAlltoAll, const void*, void*, std::size_t, ncclDataType_t, ncclComm_t,
                         cudaStream_t)
LOCKSTEP_FAKE_CUDA_LACKS(ncclReduceScatter, const void*, void*, std::size_t, ncclDataType_t,
                         ncclRedOp_t, ncclComm_t, cudaStream_t)
LOCKSTEP_FAKE_CUDA_LACKS(ncclSend, const void*, std::size_t, ncclDataType_t, int, ncclComm_t,
                         cudaStream_t)
LOCKSTEP_FAKE_CUDA_LACKS(ncclRecv, void*, std::size_t, ncclDataType_t, int, ncclComm_t,
                         cudaStream_t)
LOCKSTEP_FAKE_CUDA_LACKS(ncclCommInitAll, ncclComm_t*, int, const int*)
LOCKSTEP_FAKE_CUDA_LACKS(ncclCommInitRankScalable, ncclComm_t*, int, int, int, ncclUniqueId*,
                         ncclConfig_t*)
LOCKSTEP_FAKE_CUDA_LACKS(ncclCommShrink, ncclComm_t, int*, int, ncclComm_t*, ncclConfig_t*, int)
LOCKSTEP_FAKE_CUDA_LACKS(ncclCommSplit, ncclComm_t, int, int, ncclComm_t*, ncclConfig_t*)
LOCKSTEP_FAKE_CUDA_LACKS(ncclCommRegister, const ncclComm_t, void*, std::size_t, void**)
LOCKSTEP_FAKE_CUDA_LACKS(ncclCommDeregister, const ncclComm_t, void*)
LOCKSTEP_FAKE_CUDA_LACKS(ncclCommWindowRegister, ncclComm_t, void*, std::size_t, ncclWindow_t*, int)
LOCKSTEP_FAKE_CUDA_LACKS(ncclCommWindowDeregister, ncclComm_t, ncclWindow_t)
LOCKSTEP_FAKE_CUDA_LACKS(ncclGroupSimulateEnd, ncclSimInfo_t*)
LOCKSTEP_FAKE_CUDA_LACKS(ncclMemAlloc, void**, std::size_t)
LOCKSTEP_FAKE_CUDA_LACKS(ncclMemFree, void*)
LOCKSTEP_FAKE_CUDA_LACKS(ncclRedOpCreatePreMulSum, ncclRedOp_t*, void*, ncclDataType_t,
                         ncclScalarResidence_t, ncclComm_t)
LOCKSTEP_FAKE_CUDA_LACKS(ncclRedOpDestroy, ncclRedOp_t, ncclComm_t)
// The functions of NCCL's device side, whose types are in headers of their own.
LOCKSTEP_FAKE_CUDA_LACKS(ncclDevCommCreate, ncclComm_t, const void*, void*)
LOCKSTEP_FAKE_CUDA_LACKS(ncclDevCommDestroy, ncclComm_t, const void*)
