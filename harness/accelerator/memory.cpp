#include "harness/accelerator/memory.h"

#include "harness/accelerator/devices.h"
#include "harness/accelerator/ledger.h"

#include <c10/core/CPUAllocator.h>
#include <c10/core/alignment.h>
#include <c10/core/impl/alloc_cpu.h>
#include <c10/util/Exception.h>

#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <optional>

namespace lockstep::accelerator {

namespace {

constexpr int kPoison = 0xFF;

// The owners of addresses.
class Ranges {
 public:
  static constexpr c10::DeviceIndex kPinned = -1;

  static Ranges& instance() {
    static auto* const ranges = new Ranges;
    return *ranges;
  }

  void add(const void* begin, std::size_t bytes, c10::DeviceIndex owner) {
    const std::lock_guard lock(mutex_);
    ranges_[begin] = {bytes, owner};
  }

  std::size_t remove(const void* begin) {
    const std::lock_guard lock(mutex_);
    const auto found = ranges_.find(begin);
    const std::size_t bytes = found->second.bytes;
    ranges_.erase(found);
    return bytes;
  }

  std::optional<c10::DeviceIndex> owner_of(const void* address) {
    const std::lock_guard lock(mutex_);
    auto found = ranges_.upper_bound(address);
    if (found == ranges_.begin()) return std::nullopt;
    --found;
    const auto offset = static_cast<std::size_t>(static_cast<const char*>(address) -
                                                 static_cast<const char*>(found->first));
    if (offset >= found->second.bytes) return std::nullopt;
    return found->second.owner;
  }

 private:
  struct Range {
    std::size_t bytes = 0;
    c10::DeviceIndex owner = kPinned;
  };
  std::mutex mutex_;
  std::map<const void*, Range> ranges_;
};

// Freed memory is not reused for a while; otherwise new values would soon cover the poison.
class Quarantine {
 public:
  static Quarantine& instance() {
    static auto* const quarantine = new Quarantine;
    return *quarantine;
  }

  void add(void* begin, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    blocks_.push_back({begin, bytes});
    bytes_ += bytes;
    while (bytes_ > kBytesMost) {
      c10::free_cpu(blocks_.front().begin);
      bytes_ -= blocks_.front().bytes;
      blocks_.pop_front();
    }
  }

 private:
  struct Block {
    void* begin = nullptr;
    std::size_t bytes = 0;
  };
  static constexpr std::size_t kBytesMost = std::size_t{16} << 20;
  std::mutex mutex_;
  std::deque<Block> blocks_;
  std::size_t bytes_ = 0;
};

void free_on_device(void* begin) {
  if (begin == nullptr) return;
  Ledger::instance().free(begin);
  const std::size_t bytes = Ranges::instance().remove(begin);
  std::memset(begin, kPoison, bytes);
  Quarantine::instance().add(begin, bytes);
}

void free_pinned(void* begin) {
  if (begin == nullptr) return;
  Ranges::instance().remove(begin);
  c10::free_cpu(begin);
}

class DeviceMemory final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    return allocate_on(current_stream(-1).device_index(), bytes);
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_on_device; }
  void copy_data(void* into, const void* from, std::size_t bytes) const override {
    default_copy_data(into, from, bytes);
  }
};

class PinnedMemory final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    void* const begin = bytes == 0 ? nullptr : c10::alloc_cpu(bytes);
    if (begin != nullptr) Ranges::instance().add(begin, bytes, Ranges::kPinned);
    return {begin, begin, &free_pinned, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_pinned; }
  void copy_data(void* into, const void* from, std::size_t bytes) const override {
    default_copy_data(into, from, bytes);
  }
};

}  // namespace

c10::DataPtr allocate_on(c10::DeviceIndex device, std::size_t bytes) {
  void* const begin = bytes == 0 ? nullptr : c10::alloc_cpu(bytes);
  if (begin != nullptr) {
    std::memset(begin, kPoison, bytes);
    Ranges::instance().add(begin, bytes, device);
    Ledger::instance().allocate(begin, bytes, current_stream(device));
  }
  return {begin, begin, &free_on_device, c10::Device(c10::DeviceType::PrivateUse1, device)};
}

c10::Allocator* device_memory() {
  static auto* const memory = new DeviceMemory;
  return memory;
}

c10::Allocator* pinned_memory() {
  static auto* const memory = new PinnedMemory;
  return memory;
}

bool is_pinned(const void* address) {
  return Ranges::instance().owner_of(address) == Ranges::kPinned;
}

c10::Device device_of(const void* address) {
  const auto owner = Ranges::instance().owner_of(address);
  TORCH_CHECK(owner && *owner != Ranges::kPinned, "no simulated accelerator owns address ",
              address);
  return {c10::DeviceType::PrivateUse1, *owner};
}

}  // namespace lockstep::accelerator
