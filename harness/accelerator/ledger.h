#pragma once

#include "harness/accelerator/stream_order.h"

#include <c10/core/Stream.h>

#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::accelerator {

// The record of the simulated devices, for the whole process: what was submitted to which stream,
// and how often the host waited. Every function takes the lock.
class Ledger {
 public:
  // Never destroyed: memory is freed, and threads end, after static objects are gone.
  static Ledger& instance();

  void allocate(const void* begin, std::size_t bytes, const c10::Stream& stream);
  void free(const void* begin);
  void use_on(const void* begin, const c10::Stream& stream);

  void submit(const c10::Stream& stream, const std::string& operation,
              const std::vector<Access>& accesses);
  Clock record(const c10::Stream& stream);
  void wait(const c10::Stream& stream, const Clock& event);
  // The host knows that an event has passed, waiting for it or not.
  void host_knows(const Clock& event);
  // The same for everything submitted to a device.
  void host_knows_device(c10::DeviceIndex device);

  // Calls `act` as soon as the host knows that an event has passed; at once if it already does.
  void when_host_knows(const Clock& event, std::function<void()> act);
  // Calls at once the deferred actions whose events a stream has passed.
  void hurry_for(const c10::Stream& stream);

  // The host waited for a device; `reason` is an operation's name or a few words.
  void host_waited(std::string reason);

  std::vector<Hazard> hazards() const;
  void clear_hazards();
  std::vector<std::string> host_waits() const;

 private:
  std::size_t number_of(const c10::Stream& stream);

  struct Deferred {
    Clock event;
    std::function<void()> act;
  };
  std::vector<Deferred> take_those_before(const Clock& now);

  mutable std::mutex mutex_;
  StreamOrder order_;
  std::map<std::pair<c10::DeviceIndex, c10::StreamId>, std::size_t> numbers_;
  std::vector<std::string> host_waits_;
  std::vector<Deferred> deferred_;
};

// "stream 3 of device 0".
std::string name_of(const c10::Stream& stream);

}  // namespace lockstep::accelerator
