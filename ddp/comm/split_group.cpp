#include "ddp/comm/split_group.h"

#include "ddp/backend/broken_pipes.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <algorithm>
#include <map>
#include <numeric>
#include <stdexcept>
#include <vector>

namespace lockstep {

namespace {

using BackendPointer = c10::intrusive_ptr<c10d::Backend>;

std::vector<int> all_ranks_of(int size) {
  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

// Null on a rank that is none of `ranks`.
BackendPointer split_backend(c10d::Backend& whole, const c10::intrusive_ptr<c10d::Store>& store,
                             std::chrono::milliseconds timeout, const std::string& name,
                             const std::vector<int>& ranks) {
  const auto options = whole.getBackendOptions();
  options->group_name = name;
  options->timeout = timeout;
  // For a group split from a Gloo backend that the program made: Note [Splitting Gloo].
  const std::vector<int> all = all_ranks_of(whole.getSize());
  auto& known = options->global_ranks_in_group;
  if (known.size() != all.size()) known.assign(all.begin(), all.end());
  const auto own_store =
      c10::make_intrusive<c10d::PrefixStore>(name + "/" + whole.getBackendName(), store->clone());
  auto part = whole.split(own_store, ranks, options);
  const bool takes_part = std::ranges::find(ranks, whole.getRank()) != ranks.end();
  if (!part && takes_part) throw std::runtime_error("it was split, and gave no part");
  if (part) part->setGroupDesc(name);
  return part;
}

// Sorted, so that all ranks split the backends in one order: a set has no fixed order.
std::vector<c10::DeviceType> devices_of(const c10d::ProcessGroup& group) {
  std::vector<c10::DeviceType> devices;
  for (const c10::Device& device : group.getDeviceTypes()) devices.push_back(device.type());
  std::sort(devices.begin(), devices.end());
  return devices;
}

}  // namespace

c10::intrusive_ptr<c10d::ProcessGroup> split_group(c10d::ProcessGroup& group,
                                                   std::chrono::milliseconds timeout,
                                                   const std::string& name,
                                                   const std::vector<int>& ranks) {
  const BrokenPipesAreErrors guard;
  const auto store = group.getStore();
  if (!store) throw std::runtime_error("the group has no store");
  std::map<c10d::Backend*, BackendPointer> parts;
  for (const c10::DeviceType device : devices_of(group)) {
    const BackendPointer whole = group.getBackend(device);
    if (parts.contains(whole.get())) continue;
    parts[whole.get()] = split_backend(*whole, store, timeout, name, ranks);
  }
  const auto place = std::ranges::find(ranks, group.getRank());
  if (place == ranks.end()) return nullptr;
  auto apart = c10::make_intrusive<c10d::ProcessGroup>(
      c10::make_intrusive<c10d::PrefixStore>(name + "/", store->clone()),
      static_cast<int>(place - ranks.begin()), static_cast<int>(ranks.size()));
  // First, since backends receive it as they are set.
  apart->setBoundDeviceId(group.getBoundDeviceId());
  for (const c10::DeviceType device : devices_of(group)) {
    const BackendPointer whole = group.getBackend(device);
    const BackendPointer& part = parts.at(whole.get());
    apart->setBackend(device, c10d::ProcessGroup::strToBackendType(whole->getBackendName()), part);
  }
  apart->setDefaultBackend(c10d::ProcessGroup::strToBackendType(group.getBackendName()));
  apart->setGroupName(name);
  apart->setGroupDesc(group.getGroupDesc());
  return apart;
}

c10::intrusive_ptr<c10d::ProcessGroup> split_group(c10d::ProcessGroup& group,
                                                   std::chrono::milliseconds timeout,
                                                   const std::string& name) {
  return split_group(group, timeout, name, all_ranks_of(group.getSize()));
}

}  // namespace lockstep
