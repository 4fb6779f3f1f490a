// CUDA's runtime: what LibTorch names and what nothing here needs. A call says so, loudly, rather
// than reach the real runtime, which knows nothing of these streams and this memory.
#include "tests/fake_cuda/api.h"
#include "tests/fake_cuda/journal.h"

#define LOCKSTEP_FAKE_CUDA_LACKS(function, ...)                                         \
  LOCKSTEP_FAKE_CUDA_API cudaError_t function(__VA_ARGS__) {                            \
    lockstep::fake_cuda::give_up(#function " was called, for which nothing stands in"); \
  }

LOCKSTEP_FAKE_CUDA_LACKS(cudaGraphDebugDotPrint, cudaGraph_t, const char*, unsigned int)
LOCKSTEP_FAKE_CUDA_LACKS(cudaGraphDestroy, cudaGraph_t)
LOCKSTEP_FAKE_CUDA_LACKS(cudaGraphExecDestroy, cudaGraphExec_t)
LOCKSTEP_FAKE_CUDA_LACKS(cudaGraphGetNodes, cudaGraph_t, cudaGraphNode_t*, std::size_t*)
LOCKSTEP_FAKE_CUDA_LACKS(cudaGraphInstantiateWithFlags, cudaGraphExec_t*, cudaGraph_t,
                         unsigned long long)
LOCKSTEP_FAKE_CUDA_LACKS(cudaGraphLaunch, cudaGraphExec_t, cudaStream_t)
LOCKSTEP_FAKE_CUDA_LACKS(cudaGraphNodeGetDependencies, cudaGraphNode_t, cudaGraphNode_t*,
                         cudaGraphEdgeData*, std::size_t*)
LOCKSTEP_FAKE_CUDA_LACKS(cudaStreamBeginCapture, cudaStream_t, cudaStreamCaptureMode)
LOCKSTEP_FAKE_CUDA_LACKS(cudaStreamEndCapture, cudaStream_t, cudaGraph_t*)
LOCKSTEP_FAKE_CUDA_LACKS(cudaHostRegister, void*, std::size_t, unsigned int)
LOCKSTEP_FAKE_CUDA_LACKS(cudaHostUnregister, void*)
LOCKSTEP_FAKE_CUDA_LACKS(cudaIpcCloseMemHandle, void*)
LOCKSTEP_FAKE_CUDA_LACKS(cudaIpcGetEventHandle, cudaIpcEventHandle_t*, cudaEvent_t)
LOCKSTEP_FAKE_CUDA_LACKS(cudaIpcGetMemHandle, cudaIpcMemHandle_t*, void*)
LOCKSTEP_FAKE_CUDA_LACKS(cudaIpcOpenEventHandle, cudaEvent_t*, cudaIpcEventHandle_t)
LOCKSTEP_FAKE_CUDA_LACKS(cudaIpcOpenMemHandle, void**, cudaIpcMemHandle_t, unsigned int)
LOCKSTEP_FAKE_CUDA_LACKS(cudaGetSymbolAddress, void**, const void*)
LOCKSTEP_FAKE_CUDA_LACKS(cudaMemcpyToSymbol, const void*, const void*, std::size_t, std::size_t,
                         cudaMemcpyKind)
LOCKSTEP_FAKE_CUDA_LACKS(cudaMemcpy2DAsync, void*, std::size_t, const void*, std::size_t,
                         std::size_t, std::size_t, cudaMemcpyKind, cudaStream_t)
LOCKSTEP_FAKE_CUDA_LACKS(cudaLaunchKernelExC, const cudaLaunchConfig_t*, const void*, void**)
// The allocator that is asked for in PYTORCH_CUDA_ALLOC_CONF, backend:cudaMallocAsync.
LOCKSTEP_FAKE_CUDA_LACKS(cudaDeviceGetDefaultMemPool, cudaMemPool_t*, int)
LOCKSTEP_FAKE_CUDA_LACKS(cudaFreeAsync, void*, cudaStream_t)
LOCKSTEP_FAKE_CUDA_LACKS(cudaMallocAsync, void**, std::size_t, cudaStream_t)
LOCKSTEP_FAKE_CUDA_LACKS(cudaMemPoolGetAttribute, cudaMemPool_t, cudaMemPoolAttr, void*)
LOCKSTEP_FAKE_CUDA_LACKS(cudaMemPoolSetAccess, cudaMemPool_t, const cudaMemAccessDesc*, std::size_t)
LOCKSTEP_FAKE_CUDA_LACKS(cudaMemPoolSetAttribute, cudaMemPool_t, cudaMemPoolAttr, void*)
LOCKSTEP_FAKE_CUDA_LACKS(cudaMemPoolTrimTo, cudaMemPool_t, std::size_t)
