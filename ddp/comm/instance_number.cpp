#include "ddp/comm/instance_number.h"

#include "ddp/comm/failure_notice.h"
#include "ddp/comm/group_record.h"

#include <utility>

namespace lockstep {

InstanceNumber::InstanceNumber(c10::intrusive_ptr<c10d::ProcessGroup> group)
    : group_(std::move(group)) {
  with_record_of(group_, [this](GroupRecord& here) {
    while (here.instance_numbers.contains(number_)) ++number_;
    here.instance_numbers.insert(number_);
    made_before_ = here.instances_made++;
    last_failure_ = here.last_failure;
  });
}

InstanceNumber::~InstanceNumber() {
  with_record_of(group_, [this](GroupRecord& here) { here.instance_numbers.erase(number_); });
}

void InstanceNumber::forget() {
  with_record_of(group_, [](GroupRecord& here) { --here.instances_made; });
}

}  // namespace lockstep
