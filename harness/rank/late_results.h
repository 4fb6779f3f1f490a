// Delays the results of collectives on devices with streams: a program that forgot to wait for one
// then reads the old values, instead of being lucky.
#pragma once

#include "harness/rank/call.h"

#include <c10/core/Stream.h>
#include <c10/core/StreamGuard.h>

#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <optional>

namespace lockstep {

// Makes a stream stand still for a time; the host continues. As DeviceBackend::hold_up.
using HoldUp = std::function<void(const c10::Stream&, std::chrono::milliseconds)>;

// Note [Late results]
// A collective waits for the caller's current stream, and only Work::wait() makes that stream wait
// for the collective. So it is issued from a side stream, which waits for the caller's and then
// stands still: the backend's stream waits for the side stream, and the caller's stream for nothing
// that the caller did not request. The inputs of a collective must stay unchanged for that much
// longer, and a program that reads without having waited finds the old values.
//
// The side stream touches no tensor of the caller's, so their memory needs no record of it. Memory
// that a backend allocates meanwhile belongs to the side stream and is used by the backend's stream
// alone, so each backend has its own side stream for each device. A barrier allocates that way and
// is released half-way; it has no result to delay.
//
// One for each wrapped backend. Thread-safe.
class LateResults {
 public:
  explicit LateResults(HoldUp hold_up) : hold_up_(std::move(hold_up)) {}

  // While it lives, this thread issues from the side stream. Does nothing where `late_by` is 0, no
  // tensor is on a device, or the collective runs on the caller's own stream.
  std::optional<c10::StreamGuard> detour(const Call& call, std::chrono::milliseconds late_by);

  const HoldUp& hold_up() const { return hold_up_; }

 private:
  c10::Stream aside_of(c10::Device device);

  const HoldUp hold_up_;  // null: never
  std::mutex mutex_;      // guards what follows
  std::map<c10::DeviceIndex, c10::Stream> aside_;
};

}  // namespace lockstep
