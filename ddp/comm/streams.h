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

// Devices that run work on streams, asynchronously: CUDA, and any other that implements LibTorch's
// streams and events. Only LibTorch's device-independent interface is used, so that compiling this
// library needs nothing of CUDA. Everything is Local; on the CPU it does nothing.

// True if work on such a device runs on a stream. False for the CPU.
bool has_streams(const c10::Device& device);

// A position in a stream: behind the work it was given before this was made. Touches no other
// device.
class StreamMark {
 public:
  explicit StreamMark(const c10::Stream& stream);
  StreamMark(StreamMark&& other) noexcept;
  ~StreamMark();
  StreamMark(const StreamMark&) = delete;
  StreamMark& operator=(const StreamMark&) = delete;
  StreamMark& operator=(StreamMark&&) = delete;

  // `waiting`, of the same device, waits for this position.
  void block(const c10::Stream& waiting) const;
  bool is_passed() const;

 private:
  c10::Device device_;
  std::optional<c10::Event> event_;
};

// Note [One stream rule]
// Autograd runs a backward pass and its hooks on the streams of its forward, on a thread of its
// own; the collective runs on the backend's stream; the code after backward() runs on the caller's.
// Code that uses a bucket first calls enter(), on the current stream of the bucket's device; code
// that hands it on calls settle(), after which the current stream waits for all that have entered.
// So a sum contains what all streams have packed, the next pass packs only after the last one was
// copied out, and the host waits for nothing.

// The streams of one device that work on some memory.
class StreamOrder {
 public:
  explicit StreamOrder(const c10::Device& device) : device_(device) {}

  // The current stream will work on `memory`, after the work that was settled on another one.
  void enter(const at::Tensor& memory);

  // The current stream waits for the work so far of all streams that have entered, and becomes the
  // one to wait for.
  void settle();

 private:
  c10::Device device_;
  std::vector<c10::Stream> working_;
  std::optional<c10::Stream> settled_;
  std::vector<c10::Stream> known_;  // recorded with the memory's allocator
};

// The streams that produced the gradients, by index.
class ArrivalStreams {
 public:
  explicit ArrivalStreams(std::size_t count) : came_on_(count) {}

  // Records that the current stream of the device produces this gradient.
  void note(std::size_t index, const c10::Device& device);

  // The current stream, about to use the gradient, waits for the one that produced it, and the use
  // is recorded with the allocator. No effect if they are the same stream.
  void wait_for_producer_stream(std::size_t index, const at::Tensor& gradient) const;

 private:
  std::vector<std::optional<c10::Stream>> came_on_;
};

// Flags of earlier passes that are being copied from a device to the host.
class PendingFlagCopies {
 public:
  // Starts a copy of `flag`, which belongs to step `number`, behind the work of the current stream
  // of its device.
  void follow(const at::Tensor& flag, std::int64_t number);

  // True if all but the last `lag` copies have arrived.
  bool have_come(std::size_t lag) const;

  // The flags that have arrived since the last call, on the host.
  struct Arrived {
    at::Tensor flag;
    std::int64_t number = 0;
  };
  std::vector<Arrived> arrived();

  void forget() { flags_.clear(); }

 private:
  struct Flag {
    Flag(at::Tensor tensor, std::int64_t step, StreamMark mark)
        : value(std::move(tensor)), number(step), is_here(std::move(mark)) {}
    Flag(Flag&&) noexcept = default;
    Flag(const Flag&) = delete;
    Flag& operator=(const Flag&) = delete;
    Flag& operator=(Flag&&) = delete;
    ~Flag();

    at::Tensor value;
    std::int64_t number;
    StreamMark is_here;
  };
  std::deque<Flag> flags_;
};

}  // namespace lockstep
