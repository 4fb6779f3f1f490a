#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <cstddef>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

namespace lockstep {

// Devices that are handed work on streams and do it later: CUDA, and any other that tells LibTorch
// about its streams and events. Only LibTorch's words for all of them are used, so that nothing of
// CUDA is needed to compile this library. Everything is Local; on the CPU it does nothing.

// Whether work on such a device is put on a stream. False for the CPU.
bool has_streams(const c10::Device& device);

// A place in a stream: what it was given until this was made. Touches no other device.
class StreamMark {
 public:
  explicit StreamMark(const c10::Stream& stream);
  StreamMark(StreamMark&& other) noexcept;
  ~StreamMark();
  StreamMark(const StreamMark&) = delete;
  StreamMark& operator=(const StreamMark&) = delete;
  StreamMark& operator=(StreamMark&&) = delete;

  // `waiting`, of the same device, waits for it.
  void block(const c10::Stream& waiting) const;
  bool is_passed() const;

 private:
  c10::Device device_;
  std::optional<c10::Event> event_;
};

// Note [One stream rule]
// Autograd runs a backward pass on the streams of its forward, on a thread of its own, and hooks
// with it; the collective runs on the backend's stream; what comes after backward() runs on the
// caller's. Whoever touches a bucket enters first, on the current stream of the bucket's device,
// and whoever hands it on settles: then the current stream waits for all that have entered. So a
// sum is taken of what all streams have packed, what is packed in the next pass waits until the
// last one was copied out, and the host waits for nothing.

// The streams of one device that work on some memory.
class StreamOrder {
 public:
  explicit StreamOrder(const c10::Device& device) : device_(device) {}

  // The current stream will work on `memory`, behind what was settled on another one.
  void enter(const at::Tensor& memory);

  // The current stream waits for what all streams that have entered were given so far, and is the
  // one to wait for.
  void settle();

 private:
  c10::Device device_;
  std::vector<c10::Stream> working_;
  std::optional<c10::Stream> settled_;
  std::vector<c10::Stream> known_;  // to the memory's allocator
};

// The streams on which gradients came, by index.
class ArrivalStreams {
 public:
  explicit ArrivalStreams(std::size_t count) : came_on_(count) {}

  // The current stream of the device brings it.
  void note(std::size_t index, const c10::Device& device);

  // The current stream is going to use it: it waits for the one that brought it, whose allocator
  // hears of the use. Nothing where they are one.
  void meet(std::size_t index, const at::Tensor& gradient) const;

 private:
  std::vector<std::optional<c10::Stream>> came_on_;
};

// Numbers of passes gone by that are on their way from a device to the host.
class FlagsUnderWay {
 public:
  // A copy of `flag`, one element, behind what the current stream of its device was given.
  void follow(const at::Tensor& flag);

  // Whether all but the last `lag` have come.
  bool have_come(std::size_t lag) const;

  // Whether one of those that have come is not 0; they are forgotten then.
  bool one_is_raised();

  void forget() { flags_.clear(); }

 private:
  struct Flag {
    Flag(at::Tensor tensor, StreamMark mark) : value(std::move(tensor)), is_here(std::move(mark)) {}
    Flag(Flag&&) noexcept = default;
    Flag(const Flag&) = delete;
    Flag& operator=(const Flag&) = delete;
    Flag& operator=(Flag&&) = delete;
    ~Flag();

    at::Tensor value;
    StreamMark is_here;
  };
  std::deque<Flag> flags_;
};

}  // namespace lockstep
