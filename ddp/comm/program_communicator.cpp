#include "ddp/comm/program_communicator.h"

#include "ddp/comm/group_record.h"

#include <string>
#include <utility>

namespace lockstep {

namespace {

std::shared_ptr<Communicator> make(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                                   std::optional<std::chrono::milliseconds> timeout,
                                   int made_before) {
  Communicator whole(group, timeout);
  const std::string name = "the program's collectives " + std::to_string(made_before);
  const auto notice = std::make_shared<FailureNotice>(group->getStore(), whole.rank(), name);
  if (whole.rank() == 0) notice->clear();
  auto communicator = std::make_shared<Communicator>(
      whole.split(name, "the program's collectives need a group of their own beside this one"));
  communicator->watch(notice);
  return communicator;
}

}  // namespace

std::shared_ptr<Communicator> program_communicator(
    const c10::intrusive_ptr<c10d::ProcessGroup>& group,
    std::optional<std::chrono::milliseconds> timeout) {
  // Kept nowhere: one rank needs no group beside this one, which would never end.
  if (group->getSize() == 1) return std::make_shared<Communicator>(group, std::nullopt);
  std::shared_ptr<Communicator> communicator;
  int made_before = 0;
  with_record_of(group, [&](GroupRecord& here) {
    communicator = here.program;
    if (!communicator) made_before = here.program_communicators_made++;
  });
  if (communicator) return communicator;
  communicator = make(group, timeout, made_before);
  with_record_of(group, [&](GroupRecord& here) { here.program = communicator; });
  return communicator;
}

void release_program_communicator(const c10::intrusive_ptr<c10d::ProcessGroup>& group) {
  std::shared_ptr<Communicator> released;  // destroyed last: its group may block
  with_record_of(group,
                 [&](GroupRecord& here) { released = std::exchange(here.program, nullptr); });
}

}  // namespace lockstep
