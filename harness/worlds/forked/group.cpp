#include "harness/worlds/forked/group.h"

#include "harness/worlds/gloo/gloo.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <algorithm>

namespace lockstep {

namespace {

// Note [Connected together]
// Gloo connects a rank to its peers one after another, and a rank that is connected to all may
// continue while others are still connecting. If it ended then, they would wait for it until their
// timeout, although every collective reports at once a peer that is gone (seen in 4 of 400 worlds
// of three in which a rank ended before its first collective).
void wait_until_all_are_connected(c10d::Store& store, int size) {
  if (store.add("connected", 1) == size) store.set("all connected", std::vector<uint8_t>{1});
  store.wait({"all connected"});
}

}  // namespace

// The tap has the wrapped backend's type and name, so that c10d treats it as that backend.
TappedGroup make_group(const std::vector<int>& ranks, int own_rank, std::chrono::milliseconds limit,
                       const c10::intrusive_ptr<c10d::Store>& store, const std::string& listens_on,
                       const RankDevice& device, const std::shared_ptr<TapLog>& log) {
  const auto rank =
      static_cast<int>(std::find(ranks.begin(), ranks.end(), own_rank) - ranks.begin());
  const auto size = static_cast<int>(ranks.size());
  const auto own_store = c10::make_intrusive<c10d::PrefixStore>(log->group(), store);
  const auto on_cpu = [&](const std::string& name) {
    return gloo_backend(c10::make_intrusive<c10d::PrefixStore>(name, own_store), rank, ranks, limit,
                        listens_on);
  };
  const auto own = on_cpu("group");
  auto carries_device = own;
  HoldUp hold_up;
  if (device.backend) {
    carries_device =
        device.backend->make({.store = c10::make_intrusive<c10d::PrefixStore>("device", own_store),
                              .rank = rank,
                              .size = size,
                              .device = device.device,
                              .timeout = limit,
                              .on_cpu = own,
                              .another_on_cpu = [&] { return on_cpu("below the device"); }});
    hold_up = [by = device.backend](const c10::Stream& stream, std::chrono::milliseconds time) {
      by->hold_up(stream, time);
    };
  }
  // c10d takes one backend of a type: Gloo that carries a device's tensors too has one tap.
  TappedGroup made{.group = nullptr,
                   .taps = {c10::make_intrusive<Tap>(own, log, nullptr,
                                                     carries_device == own ? hold_up : nullptr)}};
  if (carries_device != own)
    made.taps.push_back(c10::make_intrusive<Tap>(carries_device, log, nullptr, hold_up));
  wait_until_all_are_connected(*own_store, size);
  auto group = c10::make_intrusive<c10d::ProcessGroup>(own_store, rank, size);
  const auto type = c10d::ProcessGroup::BackendType::GLOO;
  // First, since setting a backend passes it on to that backend.
  if (device.device.is_cuda()) group->setBoundDeviceId(device.device);
  group->setBackend(c10::DeviceType::CPU, type, made.taps.front());
  if (device.backend) {
    const auto& tap = made.taps.back();
    group->setBackend(device.device.type(),
                      c10d::ProcessGroup::strToBackendType(tap->getBackendName()), tap);
  }
  group->setDefaultBackend(type);
  group->setGroupName(log->group());
  made.group = group;
  return made;
}

}  // namespace lockstep
