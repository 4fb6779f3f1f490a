#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <chrono>
#include <string>
#include <vector>

namespace lockstep {

// A new group of the given ranks of `group`, in that order, whose operations are independent of
// those of `group`; null on the others. Each backend is split once, even if it carries tensors of
// several devices. c10d::ProcessGroup::splitGroup splits it once per device, the second time over
// the addresses of the first, so that ranks connect to peers of another split and hang.
//
// Every backend of the new group has its rendezvous in keys of its own below `name`, which is used
// once in a group. Collective; blocks until the backends have connected, where they connect at
// once. Throws what a backend throws that cannot be split, and std::runtime_error without a store.
c10::intrusive_ptr<c10d::ProcessGroup> split_group(c10d::ProcessGroup& group,
                                                   std::chrono::milliseconds timeout,
                                                   const std::string& name,
                                                   const std::vector<int>& ranks);

// The same of all ranks of `group`.
c10::intrusive_ptr<c10d::ProcessGroup> split_group(c10d::ProcessGroup& group,
                                                   std::chrono::milliseconds timeout,
                                                   const std::string& name);

}  // namespace lockstep
