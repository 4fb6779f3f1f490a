#include "harness/accelerator/accelerator.h"

#include "harness/accelerator/devices.h"
#include "harness/accelerator/ledger.h"
#include "harness/accelerator/memory.h"
#include "harness/accelerator/operations.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/Resize.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/alloc_cpu.h>

#include <algorithm>
#include <mutex>

namespace lockstep {

namespace accelerator {

namespace {

constexpr int kDevicesMost = 16;

// LibTorch's hooks for a device type, besides streams and operations.
class Hooks final : public at::PrivateUse1HooksInterface {
 public:
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return devices_.deviceCount(); }
  void setCurrentDevice(c10::DeviceIndex device) const override {
    devices_.setDevice({c10::DeviceType::PrivateUse1, device});
  }
  c10::DeviceIndex getCurrentDevice() const override { return devices_.getDevice().index(); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex device) const override {
    return devices_.exchangeDevice({c10::DeviceType::PrivateUse1, device}).index();
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex device) const override {
    return device < 0 ? getCurrentDevice() : exchangeDevice(device);
  }
  bool isPinnedPtr(const void* data) const override { return is_pinned(data); }
  c10::Allocator* getPinnedMemoryAllocator() const override { return pinned_memory(); }
  c10::Device getDeviceFromPtr(void* data) const override { return device_of(data); }
  // Operations draw from the CPU's generator, so that a seed gives the same numbers as on the CPU.
  const at::Generator& getDefaultGenerator(c10::DeviceIndex) const override {
    return at::detail::getDefaultCPUGenerator();
  }
  at::Generator getNewGenerator(c10::DeviceIndex) const override {
    return at::detail::createCPUGenerator();
  }
  void resizePrivateUse1Bytes(const c10::Storage& storage, std::size_t bytes) const override {
    const c10::DeviceGuard guard(storage.device());
    at::native::resize_bytes_cpu(storage.unsafeGetStorageImpl(), bytes);
  }

 private:
  Devices devices_;
};

}  // namespace

}  // namespace accelerator

void use_simulated_accelerator(int devices) {
  namespace acc = accelerator;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  TORCH_CHECK(devices >= 1 && devices <= acc::kDevicesMost, "devices is ", devices,
              ", expected 1 to ", acc::kDevicesMost);
  if (acc::device_count() != 0) {
    TORCH_CHECK(acc::device_count() == devices, "the simulated accelerator has ",
                acc::device_count(), " device(s) already; a process keeps their number");
    return;
  }
  c10::register_privateuse1_backend("accelerator");
  acc::set_device_count(devices);
  c10::impl::registerDeviceGuard(c10::DeviceType::PrivateUse1, new acc::Devices);
  c10::SetAllocator(c10::DeviceType::PrivateUse1, acc::device_memory());
  at::RegisterPrivateUse1HooksInterface(new acc::Hooks);
  acc::register_operations();
}

c10::Device accelerator_device(c10::DeviceIndex index) {
  TORCH_CHECK(index >= 0 && index < accelerator::device_count(),
              "there is no accelerator:", static_cast<int>(index), ": ",
              accelerator::device_count(), " simulated device(s) are in use");
  return {c10::DeviceType::PrivateUse1, index};
}

std::vector<accelerator::Hazard> hazards() {
  return accelerator::Ledger::instance().hazards();
}

std::vector<std::string> hazard_sentences() {
  std::vector<std::string> sentences;
  for (const accelerator::Hazard& each : hazards()) sentences.push_back(each.sentence());
  return sentences;
}

void clear_hazards() {
  accelerator::Ledger::instance().clear_hazards();
}

std::size_t host_wait_count() {
  return accelerator::Ledger::instance().host_waits().size();
}

std::vector<std::string> host_waits(std::size_t since) {
  std::vector<std::string> waits = accelerator::Ledger::instance().host_waits();
  waits.erase(waits.begin(),
              waits.begin() + static_cast<std::ptrdiff_t>(std::min(since, waits.size())));
  return waits;
}

}  // namespace lockstep
