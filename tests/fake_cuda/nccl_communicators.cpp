// NCCL: communicators, their beginnings and ends, and what they report.
#include "tests/fake_cuda/device.h"
#include "tests/fake_cuda/faults.h"
#include "tests/fake_cuda/journal.h"
#include "tests/fake_cuda/nccl_handle.h"
#include "tests/fake_cuda/rendezvous.h"

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>

namespace lockstep::fake_cuda {

namespace {

struct LastError {
  std::mutex mutex;
  std::string text;
};

LastError& last_error() {
  static auto* const last = new LastError;
  return *last;
}

int version() {
  const char* const code = std::getenv("LOCKSTEP_FAKE_CUDA_NCCL");
  return code != nullptr ? std::atoi(code) : NCCL_VERSION_CODE;
}

// The name by which NCCL recognises one GPU: until 2.29 one of a host by name, and from 2.30 on,
// where several ranks may have it, one of a rank. In truth NCCL has host names later too.
std::string gpu_of(int rank) {
  const bool is_asked = version() >= NCCL_VERSION(2, 30, 0);
  const char* const host = std::getenv("NCCL_HOSTID");
  const char* const shares = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
  const bool is_ranks_own = is_asked && shares != nullptr && std::atoi(shares) == 1;
  return std::string(host != nullptr && !is_asked ? host : "this host") + ", CUDA device " +
         std::to_string(place_of_device(current_device())) +
         (is_ranks_own ? " of rank " + std::to_string(rank) : "");
}

}  // namespace

void set_last_error(const std::string& text) {
  LastError& last = last_error();
  const std::lock_guard lock(last.mutex);
  last.text = text;
}

ncclResult_t nccl_error_of(const std::string& name) {
  constexpr std::pair<const char*, ncclResult_t> kKnown[] = {
      {"ncclUnhandledCudaError", ncclUnhandledCudaError},
      {"ncclSystemError", ncclSystemError},
      {"ncclInternalError", ncclInternalError},
      {"ncclInvalidUsage", ncclInvalidUsage},
      {"ncclRemoteError", ncclRemoteError}};
  for (const auto& [known, error] : kKnown)
    if (name == known) return error;
  give_up("'" + name + "' is no error of NCCL's that is known here");
}

std::shared_ptr<Communicator> communicator_of(ncclComm_t handle) {
  if (handle == nullptr) give_up("a communicator is used that is not there");
  return handle->communicator;
}

}  // namespace lockstep::fake_cuda

using lockstep::fake_cuda::communicator_of;
using lockstep::fake_cuda::give_up;
using lockstep::fake_cuda::note;

LOCKSTEP_FAKE_CUDA_API ncclResult_t ncclGetVersion(int* version) {
  *version = lockstep::fake_cuda::version();
  return ncclSuccess;
}

LOCKSTEP_FAKE_CUDA_API ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  note("ncclGetUniqueId");
  *id = {};
  const auto port = lockstep::fake_cuda::open_rendezvous();
  std::memcpy(id->internal, &port, sizeof port);
  return ncclSuccess;
}

LOCKSTEP_FAKE_CUDA_API ncclResult_t ncclCommInitRankConfig(ncclComm_t* made, int size,
                                                           ncclUniqueId id, int rank,
                                                           ncclConfig_t* config) {
  const bool is_blocking = config == nullptr || config->blocking != 0;
  auto communicator = std::make_shared<lockstep::fake_cuda::Communicator>(rank, size);
  note("ncclCommInitRankConfig", communicator->name() + " rank " + std::to_string(rank) + " of " +
                                     std::to_string(size) +
                                     (is_blocking ? " blocking" : " nonblocking"));
  const std::string fault = lockstep::fake_cuda::fault_of("ncclCommInitRankConfig");
  if (!fault.empty() && fault != "never") {
    lockstep::fake_cuda::set_last_error("asked for as a fault");
    return lockstep::fake_cuda::nccl_error_of(fault);
  }
  std::uint16_t port = 0;
  std::memcpy(&port, id.internal, sizeof port);
  auto* const handle = new ncclComm{communicator};
  const ncclResult_t result =
      communicator->connect(port, lockstep::fake_cuda::gpu_of(rank), is_blocking, fault == "never");
  if (result == ncclSuccess || result == ncclInProgress) {
    *made = handle;
  } else {
    delete handle;
    *made = nullptr;
  }
  return result;
}

LOCKSTEP_FAKE_CUDA_API ncclResult_t ncclCommInitRank(ncclComm_t* made, int size, ncclUniqueId id,
                                                     int rank) {
  return ncclCommInitRankConfig(made, size, id, rank, nullptr);
}

LOCKSTEP_FAKE_CUDA_API ncclResult_t ncclCommGetAsyncError(ncclComm_t handle, ncclResult_t* error) {
  if (handle == nullptr) return ncclInvalidArgument;
  *error = communicator_of(handle)->state();
  return ncclSuccess;
}

LOCKSTEP_FAKE_CUDA_API ncclResult_t ncclCommAbort(ncclComm_t handle) {
  if (handle == nullptr) return ncclSuccess;
  note("ncclCommAbort", communicator_of(handle)->name());
  communicator_of(handle)->abort();
  delete handle;
  return ncclSuccess;
}

LOCKSTEP_FAKE_CUDA_API ncclResult_t ncclCommFinalize(ncclComm_t handle) {
  note("ncclCommFinalize", communicator_of(handle)->name());
  communicator_of(handle)->finalize();
  return ncclSuccess;
}

LOCKSTEP_FAKE_CUDA_API ncclResult_t ncclCommDestroy(ncclComm_t handle) {
  note("ncclCommDestroy", communicator_of(handle)->name());
  delete handle;
  return ncclSuccess;
}

LOCKSTEP_FAKE_CUDA_API ncclResult_t ncclCommCount(const ncclComm_t handle, int* count) {
  *count = communicator_of(handle)->size();
  return ncclSuccess;
}

LOCKSTEP_FAKE_CUDA_API ncclResult_t ncclCommUserRank(const ncclComm_t handle, int* rank) {
  *rank = communicator_of(handle)->rank();
  return ncclSuccess;
}

// One operation goes out at a time: a group is the order in which they are issued.
LOCKSTEP_FAKE_CUDA_API ncclResult_t ncclGroupStart() {
  return ncclSuccess;
}

LOCKSTEP_FAKE_CUDA_API ncclResult_t ncclGroupEnd() {
  return ncclSuccess;
}

LOCKSTEP_FAKE_CUDA_API const char* ncclGetErrorString(ncclResult_t error) {
  switch (error) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error";
    case ncclSystemError:
      return "unhandled system error";
    case ncclInternalError:
      return "internal error";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
    default:
      return "unknown result code";
  }
}

LOCKSTEP_FAKE_CUDA_API const char* ncclGetLastError(ncclComm_t) {
  thread_local std::string told;
  auto& last = lockstep::fake_cuda::last_error();
  const std::lock_guard lock(last.mutex);
  told = last.text;
  return told.c_str();
}
