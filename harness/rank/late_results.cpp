#include "harness/rank/late_results.h"

#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace lockstep {

namespace {

std::optional<c10::Device> device_of_tensors(const Call& call) {
  for (const auto* const list : {&call.inputs, &call.outputs})
    for (const auto& each : *list)
      if (each.defined() && !each.device().is_cpu()) return each.device();
  return {};
}

}  // namespace

std::optional<c10::StreamGuard> LateResults::detour(const Call& call,
                                                    std::chrono::milliseconds late_by) {
  if (!hold_up_ || late_by.count() == 0 || !call.is_async) return {};
  const auto device = device_of_tensors(call);
  if (!device) return {};
  const c10::Stream aside = aside_of(*device);
  c10::Event before(device->type());
  before.record(c10::impl::VirtualGuardImpl(device->type()).getStream(*device));
  before.block(aside);
  hold_up_(aside, late_by);
  return std::optional<c10::StreamGuard>(std::in_place, aside);
}

c10::Stream LateResults::aside_of(c10::Device device) {
  const std::lock_guard lock(mutex_);
  auto found = aside_.find(device.index());
  if (found == aside_.end())
    found = aside_
                .emplace(device.index(),
                         c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device))
                .first;
  return found->second;
}

}  // namespace lockstep
