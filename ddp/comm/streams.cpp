#include "ddp/comm/streams.h"

#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/torch.h>

#include <algorithm>
#include <exception>
#include <utility>

namespace lockstep {

namespace {

c10::Stream current_stream_of(const c10::Device& device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

void wait_for(const c10::Stream& waiting, const c10::Stream& awaited) {
  StreamMark(awaited).block(waiting);
}

bool has(const std::vector<c10::Stream>& streams, const c10::Stream& stream) {
  return std::find(streams.begin(), streams.end(), stream) != streams.end();
}

}  // namespace

bool has_streams(const c10::Device& device) {
  return !device.is_cpu() && !device.is_meta();
}

// An event switches to its device and back, and switching back touches the device that was current,
// which may be a peer's; a guard switches back only to a device that this process has touched
// already.
StreamMark::StreamMark(const c10::Stream& stream) : device_(stream.device()) {
  const c10::DeviceGuard guard(device_);
  event_.emplace(stream.device_type());
  event_->record(stream);
}

StreamMark::StreamMark(StreamMark&& other) noexcept
    : device_(other.device_), event_(std::exchange(other.event_, std::nullopt)) {}

StreamMark::~StreamMark() {
  if (!event_) return;
  try {
    const c10::DeviceGuard guard(device_);
    event_.reset();
  } catch (const std::exception&) {
    // The device is lost, and so are its events.
  }
}

void StreamMark::block(const c10::Stream& waiting) const {
  const c10::DeviceGuard guard(device_);
  event_->block(waiting);
}

bool StreamMark::is_passed() const {
  return !event_ || event_->query();
}

void StreamOrder::enter(const at::Tensor& memory) {
  if (!has_streams(device_)) return;
  const c10::Stream here = current_stream_of(device_);
  if (has(working_, here)) return;
  if (settled_ && *settled_ != here) wait_for(here, *settled_);
  working_.push_back(here);
  // The allocator knows the stream on which the memory was made.
  if (known_.empty()) settled_ = here;
  if (has(known_, here)) return;
  if (!known_.empty()) memory.record_stream(here);
  known_.push_back(here);
}

void StreamOrder::settle() {
  if (!settled_) return;  // no stream has entered
  const c10::Stream here = current_stream_of(device_);
  working_.push_back(*settled_);
  for (const c10::Stream& each : std::exchange(working_, {})) {
    if (each != here) wait_for(here, each);
  }
  settled_ = here;
}

void ArrivalStreams::note(std::size_t index, const c10::Device& device) {
  if (has_streams(device)) came_on_[index] = current_stream_of(device);
}

void ArrivalStreams::wait_for_producer_stream(std::size_t index, const at::Tensor& gradient) const {
  const auto& came_on = came_on_[index];
  if (!came_on || !gradient.defined() || !has_streams(gradient.device())) return;
  const c10::Stream here = current_stream_of(gradient.device());
  if (here == *came_on) return;
  wait_for(here, *came_on);
  if (gradient.layout() == at::kStrided) {
    gradient.record_stream(here);
  } else {
    gradient._indices().record_stream(here);
    gradient._values().record_stream(here);
  }
}

void PendingFlagCopies::follow(const at::Tensor& flag, std::int64_t number) {
  const c10::Stream stream = current_stream_of(flag.device());
  at::Tensor value = at::empty(flag.sizes(), flag.options().device(at::kCPU).pinned_memory(true));
  value.copy_(flag, /*non_blocking=*/true);
  flags_.emplace_back(std::move(value), number, StreamMark(stream));
}

// Destroying a tensor of pinned memory while its device is lost ends the process, since its
// allocator throws in a destructor. So the tensor is leaked; the process will end soon.
PendingFlagCopies::Flag::~Flag() {
  try {
    is_here.is_passed();
  } catch (const std::exception&) {
    static_cast<void>(value.unsafeReleaseTensorImpl());
  }
}

bool PendingFlagCopies::have_come(std::size_t lag) const {
  return flags_.size() <= lag || flags_[flags_.size() - lag - 1].is_here.is_passed();
}

std::vector<PendingFlagCopies::Arrived> PendingFlagCopies::arrived() {
  std::vector<Arrived> all;
  for (; !flags_.empty() && flags_.front().is_here.is_passed(); flags_.pop_front()) {
    all.push_back({flags_.front().value.clone(), flags_.front().number});
  }
  return all;
}

}  // namespace lockstep
