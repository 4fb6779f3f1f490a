#include "tests/fake_cuda/device.h"

#include "tests/fake_cuda/faults.h"
#include "tests/fake_cuda/journal.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

namespace lockstep::fake_cuda {

namespace {

struct Block {
  std::size_t bytes = 0;
  MemoryKind kind;
};

// Leaked, as all that lives as long as the process: threads and destructors of others come late.
struct Blocks {
  std::mutex mutex;
  std::map<const char*, Block> blocks;
};

Blocks& all_blocks() {
  static auto* const blocks = new Blocks;
  return *blocks;
}

std::vector<int> shown_devices() {
  const char* const count = std::getenv("LOCKSTEP_FAKE_CUDA_DEVICES");
  const int all = count != nullptr ? std::atoi(count) : 8;
  std::vector<int> shown;
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (visible == nullptr) {
    for (int place = 0; place < all; ++place) shown.push_back(place);
    return shown;
  }
  for (std::string rest = visible; !rest.empty();) {
    const std::string one = rest.substr(0, rest.find(','));
    rest = one.size() < rest.size() ? rest.substr(one.size() + 1) : "";
    const int place = std::atoi(one.c_str());
    if (place < 0 || place >= all) break;
    shown.push_back(place);
  }
  return shown;
}

const std::vector<int>& devices() {
  static const auto* const shown = new std::vector<int>(shown_devices());
  return *shown;
}

thread_local int t_device = 0;
constexpr int kDevicesMax = 64;
std::atomic<bool> touched[kDevicesMax];
thread_local cudaError_t t_last_error = cudaSuccess;
std::atomic<cudaError_t> lost_with{cudaSuccess};

}  // namespace

int device_count() {
  return static_cast<int>(devices().size());
}

int place_of_device(int index) {
  return devices().at(static_cast<std::size_t>(index));
}

int current_device() {
  return t_device;
}

void set_current_device(int index) {
  t_device = index;
  touch(index);
}

bool is_touched(int index) {
  return index >= 0 && index < kDevicesMax && touched[index];
}

void touch(int index) {
  if (!touched[index].exchange(true)) note("touches", "device " + std::to_string(index));
}

void* new_memory(std::size_t bytes, MemoryKind kind) {
  constexpr std::size_t kAlignment = 512;
  touch(kind.device);
  const std::size_t whole = (std::max<std::size_t>(bytes, 1) + kAlignment - 1) & ~(kAlignment - 1);
  void* const begin = std::aligned_alloc(kAlignment, whole);
  if (begin == nullptr) return nullptr;
  // Memory that nobody wrote is not a number.
  std::memset(begin, 0xff, whole);
  Blocks& all = all_blocks();
  const std::lock_guard lock(all.mutex);
  all.blocks[static_cast<const char*>(begin)] = {whole, kind};
  return begin;
}

void forget_memory(void* begin) {
  if (begin == nullptr) return;
  Blocks& all = all_blocks();
  const std::lock_guard lock(all.mutex);
  if (all.blocks.erase(static_cast<const char*>(begin)) == 0)
    give_up("memory is freed that is not there");
  std::free(begin);
}

MemoryKind memory_of(const void* address) {
  Blocks& all = all_blocks();
  const std::lock_guard lock(all.mutex);
  const auto* const at = static_cast<const char*>(address);
  auto found = all.blocks.upper_bound(at);
  if (found == all.blocks.begin()) return {};
  --found;
  return at < found->first + found->second.bytes ? found->second.kind : MemoryKind{};
}

cudaError_t cuda_error_of(const std::string& name) {
  constexpr cudaError_t kKnown[] = {cudaErrorInvalidValue,     cudaErrorMemoryAllocation,
                                    cudaErrorIllegalAddress,   cudaErrorLaunchFailure,
                                    cudaErrorECCUncorrectable, cudaErrorUnknown};
  for (const cudaError_t each : kKnown)
    if (name == cudaGetErrorName(each)) return each;
  give_up("'" + name + "' is no error of CUDA's that is known here");
}

cudaError_t begin_call(const char* function) {
  const std::string fault = fault_of(function);
  if (!fault.empty()) {
    const cudaError_t error = cuda_error_of(fault);
    // These end the device for the process; others are of one call.
    if (error != cudaErrorInvalidValue && error != cudaErrorMemoryAllocation) lost_with = error;
    return error;
  }
  return lost_with;
}

bool device_is_lost() {
  return lost_with != cudaSuccess;
}

cudaError_t remembered(cudaError_t error) {
  if (error != cudaSuccess) t_last_error = error;
  return error;
}

void note_host_wait(const char* function) {
  note("host_waits", function);
}

}  // namespace lockstep::fake_cuda

LOCKSTEP_FAKE_CUDA_API cudaError_t cudaGetLastError() {
  const cudaError_t last = lockstep::fake_cuda::t_last_error;
  lockstep::fake_cuda::t_last_error = cudaSuccess;
  return last;
}

LOCKSTEP_FAKE_CUDA_API cudaError_t cudaPeekAtLastError() {
  return lockstep::fake_cuda::t_last_error;
}
