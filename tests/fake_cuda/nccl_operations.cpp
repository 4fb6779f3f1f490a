// NCCL: collectives. Every rank gets what it needs of every other directly.
#include "tests/fake_cuda/device.h"
#include "tests/fake_cuda/faults.h"
#include "tests/fake_cuda/journal.h"
#include "tests/fake_cuda/nccl_handle.h"
#include "tests/fake_cuda/reduction.h"

#include <cstring>
#include <string>

using lockstep::fake_cuda::bytes_of;
using lockstep::fake_cuda::Communicator;
using lockstep::fake_cuda::Message;
using lockstep::fake_cuda::QueuedCall;

namespace {

using Parts = std::vector<std::vector<char>>;

char* bytes(const void* data) {
  return static_cast<char*>(const_cast<void*>(data));
}

std::string fingerprint(const std::string& name, std::size_t count, int type, int of = 0) {
  return name + " " + std::to_string(count) + " " + std::to_string(type) + " " + std::to_string(of);
}

// Issues the call that `make` makes of the communicator, unless a fault is asked for.
template <class Make>
ncclResult_t issue(const char* function, ncclComm_t handle, cudaStream_t stream, Make make) {
  const std::string fault = lockstep::fake_cuda::fault_of(function);
  const bool is_of_stream = fault == "never" || fault == "late" || fault.rfind("async:", 0) == 0;
  if (!fault.empty() && !is_of_stream) {
    lockstep::fake_cuda::set_last_error("asked for as a fault");
    return lockstep::fake_cuda::nccl_error_of(fault);
  }
  Communicator& communicator = *lockstep::fake_cuda::communicator_of(handle);
  if (communicator.state() != ncclSuccess) return communicator.state();
  QueuedCall call = make(communicator);
  call.name = function;
  call.fault = fault;
  communicator.put(*lockstep::fake_cuda::stream_of(stream), std::move(call));
  return ncclSuccess;
}

void to_all(const Communicator& communicator, char* data, std::size_t size,
            std::vector<Message>& out) {
  for (int peer = 0; peer < communicator.size(); ++peer)
    if (peer != communicator.rank()) out.push_back({peer, data, size});
}

// The whole of every rank's `send`, for those that want it.
struct Gathered {
  std::shared_ptr<Parts> parts = std::make_shared<Parts>();

  void prepare(const Communicator& communicator, char* send, std::size_t size,
               std::vector<Message>& in) const {
    parts->assign(static_cast<std::size_t>(communicator.size()), std::vector<char>(size));
    for (int peer = 0; peer < communicator.size(); ++peer) {
      auto& part = (*parts)[static_cast<std::size_t>(peer)];
      if (peer == communicator.rank()) part.assign(send, send + size);
      if (peer != communicator.rank()) in.push_back({peer, part.data(), size});
    }
  }
};

}  // namespace

LOCKSTEP_FAKE_CUDA_API ncclResult_t ncclAllReduce(const void* send, void* receive,
                                                  std::size_t count, ncclDataType_t type,
                                                  ncclRedOp_t operation, ncclComm_t handle,
                                                  cudaStream_t stream) {
  return issue("ncclAllReduce", handle, stream, [=](Communicator& communicator) {
    const std::size_t size = count * bytes_of(type);
    const Gathered all;
    return QueuedCall{
        "", fingerprint("all-reduce", count, type, operation),
        [&communicator, all, send, size](auto& out, auto& in) {
          to_all(communicator, bytes(send), size, out);
          all.prepare(communicator, bytes(send), size, in);
        },
        [=] { lockstep::fake_cuda::reduce(*all.parts, bytes(receive), count, type, operation); },
        ""};
  });
}

LOCKSTEP_FAKE_CUDA_API ncclResult_t ncclReduce(const void* send, void* receive, std::size_t count,
                                               ncclDataType_t type, ncclRedOp_t operation, int root,
                                               ncclComm_t handle, cudaStream_t stream) {
  return issue("ncclReduce", handle, stream, [=](Communicator& communicator) {
    const std::size_t size = count * bytes_of(type);
    const Gathered all;
    const bool is_root = communicator.rank() == root;
    return QueuedCall{"", fingerprint("reduce", count, type, operation),
                      [&communicator, all, is_root, root, send, size](auto& out, auto& in) {
                        if (is_root) all.prepare(communicator, bytes(send), size, in);
                        if (!is_root) out.push_back({root, bytes(send), size});
                      },
                      [=] {
                        if (is_root)
                          lockstep::fake_cuda::reduce(*all.parts, bytes(receive), count, type,
                                                      operation);
                      },
                      ""};
  });
}

LOCKSTEP_FAKE_CUDA_API ncclResult_t ncclBroadcast(const void* send, void* receive,
                                                  std::size_t count, ncclDataType_t type, int root,
                                                  ncclComm_t handle, cudaStream_t stream) {
  return issue("ncclBroadcast", handle, stream, [=](Communicator& communicator) {
    const std::size_t size = count * bytes_of(type);
    const bool is_root = communicator.rank() == root;
    return QueuedCall{"", fingerprint("broadcast", count, type, root),
                      [&communicator, is_root, root, send, receive, size](auto& out, auto& in) {
                        if (is_root) to_all(communicator, bytes(send), size, out);
                        if (!is_root) in.push_back({root, bytes(receive), size});
                      },
                      [=] {
                        if (is_root && send != receive) std::memcpy(receive, send, size);
                      },
                      ""};
  });
}

LOCKSTEP_FAKE_CUDA_API ncclResult_t ncclBcast(void* data, std::size_t count, ncclDataType_t type,
                                              int root, ncclComm_t handle, cudaStream_t stream) {
  return ncclBroadcast(data, data, count, type, root, handle, stream);
}

LOCKSTEP_FAKE_CUDA_API ncclResult_t ncclAllGather(const void* send, void* receive,
                                                  std::size_t count, ncclDataType_t type,
                                                  ncclComm_t handle, cudaStream_t stream) {
  return issue("ncclAllGather", handle, stream, [=](Communicator& communicator) {
    const std::size_t size = count * bytes_of(type);
    const Gathered all;
    return QueuedCall{"", fingerprint("all-gather", count, type),
                      [&communicator, all, send, size](auto& out, auto& in) {
                        to_all(communicator, bytes(send), size, out);
                        all.prepare(communicator, bytes(send), size, in);
                      },
                      [=] {
                        for (std::size_t rank = 0; rank < all.parts->size(); ++rank)
                          std::memcpy(bytes(receive) + rank * size, (*all.parts)[rank].data(),
                                      size);
                      },
                      ""};
  });
}
