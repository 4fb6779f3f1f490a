// NCCL: what LibTorch names and what nothing here needs. A call says so rather than reach NCCL.
#include "tests/ddp/stand_in/api.h"
#include "tests/ddp/stand_in/journal.h"

#define LOCKSTEP_STAND_IN_LACKS(function, ...)                                         \
  LOCKSTEP_STAND_IN_API ncclResult_t function(__VA_ARGS__) {                           \
    lockstep::stand_in::give_up(#function " was called, for which nothing stands in"); \
  }

LOCKSTEP_STAND_IN_LACKS(ncclAlltoAll, const void*, void*, std::size_t, ncclDataType_t, ncclComm_t,
                        cudaStream_t)
LOCKSTEP_STAND_IN_LACKS(ncclReduceScatter, const void*, void*, std::size_t, ncclDataType_t,
                        ncclRedOp_t, ncclComm_t, cudaStream_t)
LOCKSTEP_STAND_IN_LACKS(ncclSend, const void*, std::size_t, ncclDataType_t, int, ncclComm_t,
                        cudaStream_t)
LOCKSTEP_STAND_IN_LACKS(ncclRecv, void*, std::size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t)
LOCKSTEP_STAND_IN_LACKS(ncclCommInitAll, ncclComm_t*, int, const int*)
LOCKSTEP_STAND_IN_LACKS(ncclCommInitRankScalable, ncclComm_t*, int, int, int, ncclUniqueId*,
                        ncclConfig_t*)
LOCKSTEP_STAND_IN_LACKS(ncclCommShrink, ncclComm_t, int*, int, ncclComm_t*, ncclConfig_t*, int)
LOCKSTEP_STAND_IN_LACKS(ncclCommSplit, ncclComm_t, int, int, ncclComm_t*, ncclConfig_t*)
LOCKSTEP_STAND_IN_LACKS(ncclCommRegister, const ncclComm_t, void*, std::size_t, void**)
LOCKSTEP_STAND_IN_LACKS(ncclCommDeregister, const ncclComm_t, void*)
LOCKSTEP_STAND_IN_LACKS(ncclCommWindowRegister, ncclComm_t, void*, std::size_t, ncclWindow_t*, int)
LOCKSTEP_STAND_IN_LACKS(ncclCommWindowDeregister, ncclComm_t, ncclWindow_t)
LOCKSTEP_STAND_IN_LACKS(ncclGroupSimulateEnd, ncclSimInfo_t*)
LOCKSTEP_STAND_IN_LACKS(ncclMemAlloc, void**, std::size_t)
LOCKSTEP_STAND_IN_LACKS(ncclMemFree, void*)
LOCKSTEP_STAND_IN_LACKS(ncclRedOpCreatePreMulSum, ncclRedOp_t*, void*, ncclDataType_t,
                        ncclScalarResidence_t, ncclComm_t)
LOCKSTEP_STAND_IN_LACKS(ncclRedOpDestroy, ncclRedOp_t, ncclComm_t)
// Of the device's side of NCCL, whose types are in headers of their own.
LOCKSTEP_STAND_IN_LACKS(ncclDevCommCreate, ncclComm_t, const void*, void*)
LOCKSTEP_STAND_IN_LACKS(ncclDevCommDestroy, ncclComm_t, const void*)
