// CUDA's runtime: streams and events.
#include "tests/fake_cuda/device.h"
#include "tests/fake_cuda/journal.h"

#include <map>
#include <mutex>
#include <vector>

using lockstep::fake_cuda::current_device;
using lockstep::fake_cuda::Event;
using lockstep::fake_cuda::note_host_wait;
using lockstep::fake_cuda::remembered;
using lockstep::fake_cuda::Stream;
using lockstep::fake_cuda::stream_of;

namespace lockstep::fake_cuda {

namespace {

// Handles are numbers that count from 1, so that one that was destroyed is noticed. The stream of a
// device without a handle is the null stream, which other streams do not wait for: all of
// LibTorch's are of the kind that does not.
struct Handles {
  std::mutex mutex;
  std::uintptr_t last = 0;
  std::map<std::uintptr_t, std::shared_ptr<Stream>> streams;
  std::map<std::uintptr_t, std::shared_ptr<Event>> events;
  std::map<int, std::shared_ptr<Stream>> null_streams;
};

Handles& handles() {
  static auto* const all = new Handles;
  return *all;
}

template <class Handle>
std::uintptr_t number_of(Handle handle) {
  return reinterpret_cast<std::uintptr_t>(handle);
}

std::shared_ptr<Event> event_of(cudaEvent_t handle) {
  Handles& all = handles();
  const std::lock_guard lock(all.mutex);
  const auto found = all.events.find(number_of(handle));
  if (found == all.events.end()) give_up("an event is used that is not there");
  return found->second;
}

}  // namespace

std::shared_ptr<Stream> stream_of(cudaStream_t handle) {
  Handles& all = handles();
  const std::lock_guard lock(all.mutex);
  if (handle == nullptr) {
    auto& stream = all.null_streams[current_device()];
    const std::string name = "null" + std::to_string(current_device());
    if (!stream) stream = Stream::started(current_device(), name);
    return stream;
  }
  const auto found = all.streams.find(number_of(handle));
  if (found == all.streams.end()) give_up("a stream is used that is not there");
  return found->second;
}

void wait_for_device(int device) {
  std::vector<std::shared_ptr<Stream>> streams;
  Handles& all = handles();
  {
    const std::lock_guard lock(all.mutex);
    for (const auto& [number, stream] : all.streams)
      if (stream->device() == device) streams.push_back(stream);
    if (const auto found = all.null_streams.find(device); found != all.null_streams.end())
      streams.push_back(found->second);
  }
  for (const auto& stream : streams) stream->wait();
}

}  // namespace lockstep::fake_cuda

using lockstep::fake_cuda::event_of;
using lockstep::fake_cuda::handles;

LOCKSTEP_FAKE_CUDA_API cudaError_t cudaStreamCreateWithPriority(cudaStream_t* made, unsigned int,
                                                                int) {
  LOCKSTEP_FAKE_CUDA_CALL("cudaStreamCreateWithPriority");
  lockstep::fake_cuda::touch(current_device());
  auto& all = handles();
  const std::lock_guard lock(all.mutex);
  const auto number = ++all.last;
  all.streams[number] = Stream::started(current_device(), "stream" + std::to_string(number));
  *made = reinterpret_cast<cudaStream_t>(number);
  return cudaSuccess;
}

LOCKSTEP_FAKE_CUDA_API cudaError_t cudaStreamCreate(cudaStream_t* made) {
  return cudaStreamCreateWithPriority(made, 0, 0);
}

LOCKSTEP_FAKE_CUDA_API cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  LOCKSTEP_FAKE_CUDA_CALL("cudaStreamDestroy");
  auto& all = handles();
  const std::lock_guard lock(all.mutex);
  all.streams.erase(lockstep::fake_cuda::number_of(stream));
  return cudaSuccess;
}

LOCKSTEP_FAKE_CUDA_API cudaError_t cudaStreamQuery(cudaStream_t stream) {
  LOCKSTEP_FAKE_CUDA_CALL("cudaStreamQuery");
  return stream_of(stream)->is_idle() ? cudaSuccess : cudaErrorNotReady;
}

LOCKSTEP_FAKE_CUDA_API cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  LOCKSTEP_FAKE_CUDA_CALL("cudaStreamSynchronize");
  note_host_wait("cudaStreamSynchronize");
  stream_of(stream)->wait();
  return cudaSuccess;
}

LOCKSTEP_FAKE_CUDA_API cudaError_t cudaDeviceSynchronize() {
  LOCKSTEP_FAKE_CUDA_CALL("cudaDeviceSynchronize");
  note_host_wait("cudaDeviceSynchronize");
  lockstep::fake_cuda::wait_for_device(current_device());
  return cudaSuccess;
}

LOCKSTEP_FAKE_CUDA_API cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event,
                                                       unsigned int) {
  LOCKSTEP_FAKE_CUDA_CALL("cudaStreamWaitEvent");
  stream_of(stream)->give(event_of(event)->wait_in_stream());
  return cudaSuccess;
}

LOCKSTEP_FAKE_CUDA_API cudaError_t cudaStreamAddCallback(cudaStream_t stream,
                                                         cudaStreamCallback_t callback, void* data,
                                                         unsigned int) {
  LOCKSTEP_FAKE_CUDA_CALL("cudaStreamAddCallback");
  stream_of(stream)->give([=] { callback(stream, cudaSuccess, data); });
  return cudaSuccess;
}

LOCKSTEP_FAKE_CUDA_API cudaError_t cudaStreamIsCapturing(cudaStream_t,
                                                         cudaStreamCaptureStatus* status) {
  LOCKSTEP_FAKE_CUDA_CALL("cudaStreamIsCapturing");
  *status = cudaStreamCaptureStatusNone;
  return cudaSuccess;
}

LOCKSTEP_FAKE_CUDA_API cudaError_t cudaStreamGetCaptureInfo(
    cudaStream_t, cudaStreamCaptureStatus* status, unsigned long long*, cudaGraph_t*,
    const cudaGraphNode_t**, const cudaGraphEdgeData**, std::size_t*) {
  LOCKSTEP_FAKE_CUDA_CALL("cudaStreamGetCaptureInfo");
  *status = cudaStreamCaptureStatusNone;
  return cudaSuccess;
}

LOCKSTEP_FAKE_CUDA_API cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode*) {
  LOCKSTEP_FAKE_CUDA_CALL("cudaThreadExchangeStreamCaptureMode");
  return cudaSuccess;
}

LOCKSTEP_FAKE_CUDA_API cudaError_t cudaEventCreateWithFlags(cudaEvent_t* made, unsigned int) {
  LOCKSTEP_FAKE_CUDA_CALL("cudaEventCreateWithFlags");
  auto& all = handles();
  const std::lock_guard lock(all.mutex);
  const auto number = ++all.last;
  all.events[number] = std::make_shared<Event>();
  *made = reinterpret_cast<cudaEvent_t>(number);
  return cudaSuccess;
}

LOCKSTEP_FAKE_CUDA_API cudaError_t cudaEventCreate(cudaEvent_t* made) {
  return cudaEventCreateWithFlags(made, 0);
}

LOCKSTEP_FAKE_CUDA_API cudaError_t cudaEventDestroy(cudaEvent_t event) {
  LOCKSTEP_FAKE_CUDA_CALL("cudaEventDestroy");
  auto& all = handles();
  const std::lock_guard lock(all.mutex);
  all.events.erase(lockstep::fake_cuda::number_of(event));
  return cudaSuccess;
}

LOCKSTEP_FAKE_CUDA_API cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  LOCKSTEP_FAKE_CUDA_CALL("cudaEventRecord");
  event_of(event)->record(*stream_of(stream));
  return cudaSuccess;
}

LOCKSTEP_FAKE_CUDA_API cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream,
                                                            unsigned int) {
  return cudaEventRecord(event, stream);
}

LOCKSTEP_FAKE_CUDA_API cudaError_t cudaEventQuery(cudaEvent_t event) {
  LOCKSTEP_FAKE_CUDA_CALL("cudaEventQuery");
  return event_of(event)->is_over() ? cudaSuccess : cudaErrorNotReady;
}

LOCKSTEP_FAKE_CUDA_API cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  LOCKSTEP_FAKE_CUDA_CALL("cudaEventSynchronize");
  note_host_wait("cudaEventSynchronize");
  event_of(event)->wait();
  return cudaSuccess;
}

LOCKSTEP_FAKE_CUDA_API cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t begin,
                                                        cudaEvent_t end) {
  LOCKSTEP_FAKE_CUDA_CALL("cudaEventElapsedTime");
  const auto time = event_of(end)->passed_at() - event_of(begin)->passed_at();
  *ms = std::chrono::duration<float, std::milli>(time).count();
  return cudaSuccess;
}
