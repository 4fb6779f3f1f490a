#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <chrono>
#include <string>

namespace lockstep {

// A group of the same ranks that shares nothing with `group` under way: each of its backends is
// split, once where it carries tensors of several devices. c10d::ProcessGroup::splitGroup splits
// it once a device, the second time over the addresses of the first, so that ranks meet peers of
// another part and hang.
//
// Every backend of the new group meets in keys of its own below `name`, which is used once in a
// group. Collective; blocks until the backends have connected, where they do so at once. Throws
// what a backend throws that cannot be split, and std::runtime_error without a store.
c10::intrusive_ptr<c10d::ProcessGroup> group_apart(c10d::ProcessGroup& group,
                                                   std::chrono::milliseconds timeout,
                                                   const std::string& name);

}  // namespace lockstep
