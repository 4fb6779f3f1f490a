// A group of a forked world, over Gloo.
#pragma once

#include "harness/world/tap.h"

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace lockstep {

// A group whose collectives are recorded.
struct TappedGroup {
  c10::intrusive_ptr<c10d::ProcessGroup> group;
  c10::intrusive_ptr<Tap> tap;
};

// Over `ranks`, `own_rank` among them, which meet in `store` and listen on `listens_on`, each an
// address of its host; every wait in it ends after `limit`. Collective; blocks.
TappedGroup make_group(const std::vector<int>& ranks, int own_rank, std::chrono::milliseconds limit,
                       const c10::intrusive_ptr<c10d::Store>& store, const std::string& listens_on,
                       const std::shared_ptr<TapLog>& log);

}  // namespace lockstep
