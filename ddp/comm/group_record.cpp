#include "ddp/comm/group_record.h"

#include "ddp/comm/communicator.h"
#include "ddp/comm/failure_notice.h"

#include <map>
#include <mutex>
#include <vector>

namespace lockstep {

namespace {

struct Table {
  std::mutex mutex;
  std::map<const c10d::ProcessGroup*, GroupRecord> by_group;
};

// Never destroyed: instances may outlive the statics of the program.
Table& table() {
  static auto* const all = new Table;
  return *all;
}

}  // namespace

void with_record_of(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                    const std::function<void(GroupRecord&)>& use) {
  std::vector<GroupRecord> expired;  // destroyed behind the lock: groups in them may block
  const std::lock_guard lock(table().mutex);
  auto& by_group = table().by_group;
  for (auto each = by_group.begin(); each != by_group.end();) {
    const auto here = each++;
    if (!here->second.group.expired()) continue;
    expired.push_back(std::move(here->second));
    by_group.erase(here);
  }
  const auto found = by_group.try_emplace(
      group.get(), GroupRecord{.group = c10::weak_intrusive_ptr<c10d::ProcessGroup>(group),
                               .instance_numbers = {},
                               .last_failure = std::make_shared<LastFailure>(),
                               .program = {}});
  use(found.first->second);
}

}  // namespace lockstep
