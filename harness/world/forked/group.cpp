#include "harness/world/forked/group.h"

#include "harness/world/gloo.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <algorithm>

namespace lockstep {

// The tap goes by the wrapped backend's type and name, so that c10d treats it as that backend.
TappedGroup make_group(const std::vector<int>& ranks, int own_rank, std::chrono::milliseconds limit,
                       const c10::intrusive_ptr<c10d::Store>& store,
                       const std::shared_ptr<TapLog>& log) {
  const auto rank =
      static_cast<int>(std::find(ranks.begin(), ranks.end(), own_rank) - ranks.begin());
  const auto size = static_cast<int>(ranks.size());
  const auto own_store = c10::make_intrusive<c10d::PrefixStore>(log->group(), store);
  const auto tap = c10::make_intrusive<Tap>(
      gloo_backend(c10::make_intrusive<c10d::PrefixStore>("group", own_store), rank, size, limit),
      log);
  auto group = c10::make_intrusive<c10d::ProcessGroup>(own_store, rank, size);
  const auto type = c10d::ProcessGroup::BackendType::GLOO;
  group->setBackend(c10::DeviceType::CPU, type, tap);
  group->setDefaultBackend(type);
  group->setGroupName(log->group());
  return {group, tap};
}

}  // namespace lockstep
