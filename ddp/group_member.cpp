#include "ddp/group_member.h"

#include <map>
#include <mutex>
#include <set>
#include <utility>

namespace lockstep {

namespace {

struct Numbers {
  std::mutex mutex;
  std::map<const c10d::ProcessGroup*, std::set<int>> taken;
};

// Never destroyed: instances may outlive the statics of the program.
Numbers& numbers() {
  static auto* const all = new Numbers;
  return *all;
}

}  // namespace

GroupMember::GroupMember(c10::intrusive_ptr<c10d::ProcessGroup> group) : group_(std::move(group)) {
  const std::lock_guard lock(numbers().mutex);
  std::set<int>& taken = numbers().taken[group_.get()];
  while (taken.contains(number_)) ++number_;
  taken.insert(number_);
}

GroupMember::~GroupMember() {
  const std::lock_guard lock(numbers().mutex);
  const auto found = numbers().taken.find(group_.get());
  found->second.erase(number_);
  if (found->second.empty()) numbers().taken.erase(found);
}

}  // namespace lockstep
