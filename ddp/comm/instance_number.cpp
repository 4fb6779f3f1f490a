#include "ddp/comm/instance_number.h"

#include "ddp/comm/failure_notice.h"

#include <map>
#include <mutex>
#include <set>
#include <utility>

namespace lockstep {

namespace {

struct Instances {
  // Keeps the address from becoming another group's.
  c10::weak_intrusive_ptr<c10d::ProcessGroup> group;
  std::set<int> numbers;
  int made = 0;
  std::shared_ptr<LastFailure> last_failure = std::make_shared<LastFailure>();
};

struct Table {
  std::mutex mutex;
  std::map<const c10d::ProcessGroup*, Instances> by_group;
};

// Never destroyed: instances may outlive the statics of the program.
Table& table() {
  static auto* const all = new Table;
  return *all;
}

}  // namespace

InstanceNumber::InstanceNumber(c10::intrusive_ptr<c10d::ProcessGroup> group)
    : group_(std::move(group)) {
  const std::lock_guard lock(table().mutex);
  std::erase_if(table().by_group, [](const auto& each) { return each.second.group.expired(); });
  const auto found = table().by_group.try_emplace(
      group_.get(),
      Instances{.group = c10::weak_intrusive_ptr<c10d::ProcessGroup>(group_), .numbers = {}});
  Instances& here = found.first->second;
  while (here.numbers.contains(number_)) ++number_;
  here.numbers.insert(number_);
  made_before_ = here.made++;
  last_failure_ = here.last_failure;
}

InstanceNumber::~InstanceNumber() {
  const std::lock_guard lock(table().mutex);
  table().by_group.find(group_.get())->second.numbers.erase(number_);
}

}  // namespace lockstep
