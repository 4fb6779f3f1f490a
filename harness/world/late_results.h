// Has the results of collectives come late, on devices that run them on streams: a program that
// forgot to wait for one then finds what was there before, instead of being lucky.
#pragma once

#include "harness/world/call.h"

#include <c10/core/Stream.h>
#include <c10/core/StreamGuard.h>

#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <optional>

namespace lockstep {

// Has a stream stand still for a time; the host goes on. As DeviceBackend has it.
using HoldUp = std::function<void(const c10::Stream&, std::chrono::milliseconds)>;

// Note [Late results]
// A collective waits for the caller's current stream, and only Work::wait() makes that wait for the
// collective. So it is issued from a stream aside, which waits for the caller's and then stands
// still: the backend's stream waits for that, and the caller's for nothing that it did not ask for.
// What a program gave to a collective must be as it was for that much longer, and what it reads
// without having waited is not there yet.
//
// The stream aside touches no tensor of the caller's, so their memory needs no record of it. What a
// backend allocates meanwhile is of the stream aside, and used by the backend's stream alone: so
// each backend has a stream aside of its own for each device. A barrier has its memory so and is
// let go in the middle, and has no result to be late.
//
// One of a wrapped backend. Thread-safe.
class LateResults {
 public:
  explicit LateResults(HoldUp hold_up) : hold_up_(std::move(hold_up)) {}

  // While it lives, what is issued on this thread is issued from the stream aside. Nothing where
  // `late_by` is 0, no tensor is on a device, or the caller takes the collective as its own
  // stream's.
  std::optional<c10::StreamGuard> detour(const Call& call, std::chrono::milliseconds late_by);

  const HoldUp& hold_up() const { return hold_up_; }

 private:
  c10::Stream aside_of(c10::Device device);

  const HoldUp hold_up_;  // null: never
  std::mutex mutex_;      // guards what follows
  std::map<c10::DeviceIndex, c10::Stream> aside_;
};

}  // namespace lockstep
