#pragma once

#include "harness/accelerator/stream_order.h"

#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <functional>

namespace lockstep::accelerator {

// The part of a stream's operation that still runs on host threads, such as a collective of the
// inner backend. Operations ordered after it wait for its values; such a wait is internal to the
// simulation and is not counted.
struct Background {
  std::function<bool()> is_over;
  std::function<void()> finish;  // returns once it is over, whether it failed or not
};

// The calling thread's current stream of a device. Index -1: of the current device.
c10::Stream current_stream(c10::DeviceIndex device);

// A stream with a single user, unlike those of the pool.
c10::Stream stream_of_its_own(c10::DeviceIndex device);

void run_in_background(const c10::Stream& stream, Background work);
// Waits for the values without ordering anything.
void finish_background_of(const c10::Stream& stream);

int device_count();
void set_device_count(int devices);

// The device guard. As in CUDA, the pool has 32 streams per device, given out in turn, and stream 0
// is the default one. Current device and streams are thread-local.
class Devices final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return c10::DeviceType::PrivateUse1; }
  c10::Device exchangeDevice(c10::Device device) const override;
  c10::Device getDevice() const override;
  void setDevice(c10::Device device) const override;
  void uncheckedSetDevice(c10::Device device) const noexcept override;
  c10::DeviceIndex deviceCount() const noexcept override;
  c10::DeviceCapability getDeviceCapability(c10::Device device) const override;

  c10::Stream getStream(c10::Device device) const override;
  c10::Stream getDefaultStream(c10::Device device) const override;
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool high_priority) const override;
  c10::Stream getNewStream(c10::Device device, int priority) const override;
  c10::Stream exchangeStream(c10::Stream stream) const override;
  bool queryStream(const c10::Stream& stream) const override;
  void synchronizeStream(const c10::Stream& stream) const override;
  void synchronizeDevice(c10::DeviceIndex device) const override;

  void record(void** event, const c10::Stream& stream, c10::DeviceIndex device,
              c10::EventFlag flag) const override;
  void block(void* event, const c10::Stream& stream) const override;
  bool queryEvent(void* event) const override;
  void synchronizeEvent(void* event) const override;
  double elapsedTime(void* event, void* later, c10::DeviceIndex device) const override;
  void destroyEvent(void* event, c10::DeviceIndex device) const noexcept override;

  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& stream) const override;
};

}  // namespace lockstep::accelerator
