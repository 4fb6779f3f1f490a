// The only file that includes NCCL's and CUDA's headers: liblockstep_nccl.so.
#include "ddp/backend/nccl/plugin.h"

#include "ddp/backend/nccl/attempt.h"
#include "ddp/base/waiting.h"

#include <ATen/Functions.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAFunctions.h>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#include <torch/version.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

namespace lockstep {

namespace {

using Nccl = c10d::ProcessGroupNCCL;
using Store = c10::intrusive_ptr<c10d::Store>;

// NCCL's watchdog gives up this much later than a host's wait for a collective, whose error names
// the operation. The watchdog is for waits elsewhere, such as in a copy to the host.
constexpr std::chrono::seconds kWatchdogIsLater{10};

// Note [Leaving NCCL]
// A rank whose last all-reduce has ended may still have to send peers bytes from its buffers, and
// neither way to destroy a communicator allows for that: ncclCommDestroy waits for peers, without
// end; ncclCommAbort, which LibTorch's destructor calls, waits for nothing and discards the bytes.
// So a rank that leaves without an error waits until its own work is over (the watchdog ends what
// passes its timeout), reports that in the store, waits for the others for as long as bytes may
// take, and aborts: the destructor ends, and no kernel spins. After a failure no rank waits.
constexpr std::chrono::seconds kLeavePatience{3};

class NcclBackend final : public Nccl {
 public:
  static c10::intrusive_ptr<NcclBackend> make(const NcclGroupRequest& request) {
    return make(request.store, request.rank, request.world_size, request.timeout);
  }

  NcclBackend(Store store, int rank, int size, c10::intrusive_ptr<Options> watched,
              c10::intrusive_ptr<Options> shown)
      : Nccl(store, rank, size, std::move(watched)),
        store_(std::move(store)),
        shown_(std::move(shown)) {}

  ~NcclBackend() override {
    if (is_over_) return;
    try {
      wait_for_others();
    } catch (const std::exception&) {
      // The others, the store or the driver are gone.
    }
    abort_quietly();
  }

  // With the timeout of waits, not the watchdog's.
  c10::intrusive_ptr<c10d::Backend::Options> getBackendOptions() override { return shown_; }

  void setTimeout(std::chrono::milliseconds timeout) override {
    shown_->timeout = timeout;
    Nccl::setTimeout(timeout + kWatchdogIsLater);
  }

  // LibTorch splits communicators, which requires that nothing is under way in them, and keeps the
  // whole group alive through its own options. A newly connected group needs neither.
  c10::intrusive_ptr<c10d::Backend> split(
      const Store& store, const std::vector<int>& ranks,
      const c10::intrusive_ptr<c10d::Backend::Options>& options) override {
    const auto place = std::find(ranks.begin(), ranks.end(), getRank());
    if (place == ranks.end()) return nullptr;
    const auto timeout = options ? options->timeout : shown_->timeout;
    auto part = make(store, static_cast<int>(place - ranks.begin()), static_cast<int>(ranks.size()),
                     timeout);
    part->setBoundDeviceId(getBoundDeviceId());
    // A backend that has carried nothing may never be used: its GPU stays untouched.
    if (has_connected() && getBoundDeviceId()) part->connect(*getBoundDeviceId(), timeout, nullptr);
    return part;
  }

  void abort() override {
    is_over_ = true;
    Nccl::abort();
  }

  void shutdown() override {
    is_over_ = true;
    Nccl::shutdown();
  }

  // Note [Connecting to a peer that is not there]
  // LibTorch connects by a call from which NCCL returns when all ranks have arrived, and that
  // nothing can end: until then there is no communicator to abort. (Its nonblocking mode is off by
  // default, after hangs in training.) So a thread makes the call, and is left behind with this
  // object, which it keeps alive, if time runs out or a peer reports that it cannot connect.
  //
  // The call returns, with an error, when the rank that it waits for has gone. A thread that
  // returns into LibTorch while the process destroys LibTorch ends the process by an exception in a
  // destructor. The ranks of a world give up at one time: so rank 0, where NCCL's ranks have their
  // rendezvous, exits at once, and at the end of their processes the others wait briefly for their
  // calls to return.
  void connect(at::Device device, std::chrono::milliseconds time,
               const std::function<std::string()>& peer_error) {
    const auto self = c10::intrusive_ptr<NcclBackend>::reclaim_copy(this);
    const std::string why = make_attempt(
        {.call = [self, device, time] { self->connect_now(device, time); },
         .clean_up = [self] { self->abort_quietly(); },
         .time = time,
         .peer_error = peer_error,
         .is_awaited_at_exit = getRank() != 0},
        "not all ranks have connected over NCCL within " + std::to_string(time.count()) + " ms");
    if (!why.empty()) C10_THROW_ERROR(DistBackendError, why);
  }

  // The collectives that this library issues connect first, so that connecting has a deadline too.
  c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor>& tensors,
                                           const c10d::BroadcastOptions& options) override {
    connect_first(tensors);
    return Nccl::broadcast(tensors, options);
  }

  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors,
                                           const c10d::AllreduceOptions& options) override {
    connect_first(tensors);
    return Nccl::allreduce(tensors, options);
  }

  c10::intrusive_ptr<c10d::Work> _allgather_base(at::Tensor& all, at::Tensor& mine,
                                                 const c10d::AllgatherOptions& options) override {
    connect_first({mine});
    return Nccl::_allgather_base(all, mine, options);
  }

 private:
  void connect_first(const std::vector<at::Tensor>& tensors) {
    if (has_connected() || tensors.empty() || !tensors.front().is_cuda()) return;
    connect(getBoundDeviceId().value_or(tensors.front().device()), shown_->timeout, nullptr);
  }

  void connect_now(at::Device device, std::chrono::milliseconds time) {
    eagerConnectSingleDevice(device);
    std::vector<at::Tensor> one = {at::ones({1}, at::TensorOptions().device(device))};
    Nccl::allreduce(one, c10d::AllreduceOptions())->wait(time);
  }

  void abort_quietly() {
    try {
      abort();
    } catch (const std::exception&) {
      // As at the end of a process, after its driver is gone.
    }
  }

  static c10::intrusive_ptr<NcclBackend> make(const Store& store, int rank, int size,
                                              std::chrono::milliseconds timeout) {
    const auto options = [&](std::chrono::milliseconds time) {
      auto made = Options::create();
      made->timeout = time;
      for (int each = 0; each < size; ++each)
        made->global_ranks_in_group.push_back(static_cast<std::uint64_t>(each));
      return made;
    };
    return c10::make_intrusive<NcclBackend>(store, rank, size, options(timeout + kWatchdogIsLater),
                                            options(timeout));
  }

  void wait_for_others() {
    if (!own_work_ends() || getSize() == 1) return;
    const std::string all = "lockstep/all_have_left";
    if (store_->add("lockstep/have_left", 1) >= getSize()) store_->set(all, "1");
    store_->wait({all}, kLeavePatience);
  }

  bool has_connected() {
    const std::lock_guard lock(mutex_);
    return !devNCCLCommMap_.empty();
  }

  // The watchdog removes from the list what is over; if the GPU is lost the watchdog ends, and
  // querying throws.
  bool own_work_ends() {
    constexpr std::chrono::milliseconds kInterval{10};
    bool is_over = false;
    const auto ended_or_failed = [&] {
      if (getError() != c10d::ErrorType::SUCCESS) return true;
      const std::lock_guard lock(workMetaListMutex_);
      if (!workMetaList_.empty()) workMetaList_.front().isCompleted();
      return is_over = workMetaList_.empty();
    };
    poll_until(deadline_in(options_->timeout + kWatchdogIsLater), ended_or_failed,
               {.shortest = kInterval, .longest = kInterval});
    return is_over && getError() == c10d::ErrorType::SUCCESS;
  }

  const Store store_;
  const c10::intrusive_ptr<Options> shown_;
  std::atomic<bool> is_over_{false};
};

std::string cuda_version() {
  return std::to_string(CUDART_VERSION / 1000) + "." + std::to_string(CUDART_VERSION % 1000 / 10);
}

std::vector<std::string> gpus() {
  const int count = c10::cuda::device_count_ensure_non_zero();
  std::vector<std::string> names;
  for (int index = 0; index < count; ++index) {
    std::string name;
    for (const char each :
         at::cuda::getDeviceProperties(static_cast<c10::DeviceIndex>(index))->uuid.bytes) {
      constexpr const char* kDigits = "0123456789abcdef";
      const auto byte = static_cast<unsigned char>(each);
      name += {kDigits[byte >> 4], kDigits[byte & 15]};
    }
    names.push_back(std::move(name));
  }
  return names;
}

std::string first_gpus_model() {
  return at::cuda::getDeviceProperties(0)->name;
}

c10::intrusive_ptr<c10d::Backend> make(const NcclGroupRequest& request) {
  return NcclBackend::make(request);
}

void connect(c10d::Backend& backend, int device_index, std::chrono::milliseconds time,
             const std::function<std::string()>& peer_error) {
  dynamic_cast<NcclBackend&>(backend).connect(
      at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(device_index)), time, peer_error);
}

const NcclPlugin kPlugin = {.made_for = "Lockstep " LOCKSTEP_VERSION " on PyTorch " TORCH_VERSION,
                            .nccl_version = c10d::getNcclVersion,
                            .cuda_version = cuda_version,
                            .gpus = gpus,
                            .first_gpus_model = first_gpus_model,
                            .make = make,
                            .connect = connect};

}  // namespace

}  // namespace lockstep

extern "C" __attribute__((visibility("default"))) const lockstep::NcclPlugin*
lockstep_nccl_plugin() {
  return &lockstep::kPlugin;
}
