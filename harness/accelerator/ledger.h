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

// What the simulated devices keep account of, for the whole process: what was submitted to which
// stream, and how often the host waited. Every function takes the lock for itself.
class Ledger {
 public:
  // Never destroyed: memory is given back, and threads end, after static objects are gone.
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
  // The same of all that was submitted to a device.
  void host_knows_device(c10::DeviceIndex device);

  // Does something as soon as the host knows that an event has passed; now, if it does.
  void when_host_knows(const Clock& event, std::function<void()> act);
  // Does now what waits for events that a stream is behind.
  void hurry_for(const c10::Stream& stream);

  // The host was held up until a device had done something; `reason` is an operation's name or a
  // few words.
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
