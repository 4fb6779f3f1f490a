// The only file of the harness that includes NCCL's and CUDA's headers.
#include "harness/cuda/plugin/plugin.h"

#include <ATen/Functions.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/util/env.h>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

namespace lockstep::cuda {

namespace {

using Base = c10d::ProcessGroupNCCL;

// Note [The watchdog comes second]
// A rank's own wait has to end first, since its error names the operation: LibTorch's watchdog
// aborts a collective this much later. The options that others read and write have the timeout of
// waits.
constexpr std::chrono::seconds kWatchdogIsLater{10};

// Without these, LibTorch answers a failed collective by ending the process, which would be the
// crash of a rank that has an error to handle. A variable that is set stays.
void keep_failures_from_ending_processes() {
  constexpr std::array<std::pair<const char*, const char*>, 4> kSettings{
      {{"TORCH_NCCL_ASYNC_ERROR_HANDLING", "2"},  // aborts the communicator alone
       {"TORCH_NCCL_RETHROW_CUDA_ERRORS", "0"},
       {"TORCH_NCCL_DUMP_ON_TIMEOUT", "0"},
       {"TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC", "0"}}};
  for (const auto& [name, value] : kSettings)
    if (!c10::utils::has_env(name)) c10::utils::set_env(name, value);
}

class NcclBackend final : public Base {
 public:
  static c10::intrusive_ptr<NcclBackend> connected(const NcclRank& place) {
    const auto options = [&](std::chrono::milliseconds timeout) {
      auto made = Options::create();
      made->timeout = timeout;
      for (int rank = 0; rank < place.size; ++rank)
        made->global_ranks_in_group.push_back(static_cast<uint64_t>(rank));
      return made;
    };
    auto made = c10::make_intrusive<NcclBackend>(place, options(place.timeout + kWatchdogIsLater),
                                                 options(place.timeout));
    const at::Device device(at::kCUDA, static_cast<c10::DeviceIndex>(place.device_index));
    made->setBoundDeviceId(device);
    made->eagerConnectSingleDevice(device);
    std::vector<at::Tensor> one{at::ones({1}, at::TensorOptions().device(device))};
    made->allreduce(one, {})->wait();
    return made;
  }

  NcclBackend(NcclRank place, c10::intrusive_ptr<Options> watched,
              c10::intrusive_ptr<Options> shown)
      : Base(place.store, place.rank, place.size, std::move(watched)),
        place_(std::move(place)),
        shown_(std::move(shown)) {}

  // Note [Ranks leave a communicator together]
  // A communicator that is aborted discards the bytes that a rank has still to send, and LibTorch's
  // destructor aborts it at once. Subjects destroy groups of their own in the middle of a program,
  // so a rank waits until its work is over, reports that in the store, and waits for the others.
  // After a failure nothing is worth waiting for.
  ~NcclBackend() override {
    if (has_ended_) return;
    try {
      if (own_work_ends()) wait_for_others();
      Base::abort();
    } catch (const std::exception&) {
      // The store, the others or the driver are gone.
    }
  }

  c10::intrusive_ptr<c10d::Backend::Options> getBackendOptions() override { return shown_; }

  void setTimeout(std::chrono::milliseconds timeout) override {
    shown_->timeout = timeout;
    Base::setTimeout(timeout + kWatchdogIsLater);
  }

  // LibTorch splits a communicator only while nothing is under way in it.
  c10::intrusive_ptr<c10d::Backend> split(
      const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
      const c10::intrusive_ptr<c10d::Backend::Options>& options) override {
    const auto own = std::find(ranks.begin(), ranks.end(), getRank());
    if (own == ranks.end()) return nullptr;
    return connected({.store = store,
                      .rank = static_cast<int>(own - ranks.begin()),
                      .size = static_cast<int>(ranks.size()),
                      .device_index = place_.device_index,
                      .timeout = options ? options->timeout : shown_->timeout});
  }

  void abort() override {
    has_ended_ = true;
    Base::abort();
  }

  void shutdown() override {
    has_ended_ = true;
    Base::shutdown();
  }

 private:
  // The watchdog removes from the list what is over; querying throws where the GPU is lost.
  bool own_work_ends() {
    const auto until = std::chrono::steady_clock::now() + shown_->timeout + kWatchdogIsLater;
    for (;;) {
      if (getError() != c10d::ErrorType::SUCCESS) return false;
      {
        const std::lock_guard lock(workMetaListMutex_);
        if (workMetaList_.empty()) return true;
        workMetaList_.front().isCompleted();
      }
      if (std::chrono::steady_clock::now() >= until) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }

  void wait_for_others() {
    constexpr std::chrono::seconds kPatience{3};
    const std::string all = "all ranks are done";
    if (place_.store->add("ranks that are done", 1) == place_.size) place_.store->set(all, "1");
    place_.store->wait({all}, kPatience);
  }

  const NcclRank place_;
  const c10::intrusive_ptr<Options> shown_;
  std::atomic<bool> has_ended_ = false;
};

std::vector<std::string> gpus() {
  constexpr const char* kDigits = "0123456789abcdef";
  const int count = c10::cuda::device_count_ensure_non_zero();
  std::vector<std::string> names;
  for (int index = 0; index < count; ++index) {
    std::string name;
    for (const char byte :
         at::cuda::getDeviceProperties(static_cast<c10::DeviceIndex>(index))->uuid.bytes)
      name += {kDigits[static_cast<unsigned char>(byte) >> 4],
               kDigits[static_cast<unsigned char>(byte) & 15]};
    names.push_back(std::move(name));
  }
  return names;
}

std::string first_gpus_model() {
  return at::cuda::getDeviceProperties(0)->name;
}

c10::intrusive_ptr<c10d::Backend> connect(const NcclRank& place) {
  keep_failures_from_ending_processes();
  return NcclBackend::connected(place);
}

const NcclPlugin kPlugin = {.nccl_version = c10d::getNcclVersionTuple,
                            .gpus = gpus,
                            .first_gpus_model = first_gpus_model,
                            .connect = connect};

}  // namespace

}  // namespace lockstep::cuda

extern "C" __attribute__((visibility("default"))) const lockstep::cuda::NcclPlugin*
lockstep_harness_nccl_plugin() {
  return &lockstep::cuda::kPlugin;
}
