// A backend for tensors on a device.
#pragma once

#include "harness/worlds/devices/devices.h"

#include <c10/core/Device.h>
#include <c10/core/Stream.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <functional>
#include <string>

namespace lockstep {

class DeviceBackend {
 public:
  virtual ~DeviceBackend() = default;

  // In the process that ranks are forked from: loads what they need. Queries no driver.
  virtual void before_forks() const {}

  // The devices this process sees. Queries a driver: not in the process that ranks are forked from.
  virtual SeenDevices seen() const = 0;

  // In the process of rank `rank`, first thing: makes the device at `device` usable and returns it.
  virtual c10::Device take(const DeviceAssignment& device, int rank) const = 0;

  // The inputs of a group of `size` ranks for the device's tensors; `on_cpu` carries the CPU's.
  struct Wanted {
    c10::intrusive_ptr<c10d::Store> store;  // of this backend alone
    int rank = 0;
    int size = 1;
    c10::Device device = c10::kCPU;
    std::chrono::milliseconds timeout{0};
    c10::intrusive_ptr<c10d::Backend> on_cpu;
    // Makes another backend like `on_cpu`; collective.
    std::function<c10::intrusive_ptr<c10d::Backend>()> another_on_cpu;
  };
  // Collective; blocks. May return `on_cpu`, which then carries both.
  virtual c10::intrusive_ptr<c10d::Backend> make(const Wanted& wanted) const = 0;

  // Enqueues a delay of about `time` on the stream, before what is submitted to it next; the host
  // continues. Does nothing on a device that is never late.
  virtual void hold_up(const c10::Stream&, std::chrono::milliseconds) const {}

  // In a rank's process, after its program: what it did wrong with its device since the last call,
  // as a sentence; empty: nothing.
  virtual std::string device_error() const { return ""; }
};

}  // namespace lockstep
