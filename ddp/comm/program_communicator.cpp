#include "ddp/comm/program_communicator.h"

#include "ddp/comm/group_record.h"
#include "ddp/comm/program_rendezvous.h"
#include "ddp/errors.h"

#include <algorithm>
#include <string>
#include <utility>

namespace lockstep {

namespace {

std::chrono::milliseconds elapsed_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() -
                                                               start);
}

std::shared_ptr<Communicator> split(Communicator& whole, const std::string& name,
                                    const c10::intrusive_ptr<c10d::Store>& store) {
  const auto notice = std::make_shared<FailureNotice>(store, whole.rank(), name);
  if (whole.rank() == 0) notice->clear();
  auto communicator = std::make_shared<Communicator>(
      whole.split(name, "the program's collectives need a group of their own beside this one"));
  communicator->watch(notice);
  return communicator;
}

std::shared_ptr<Communicator> make(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                                   std::optional<std::chrono::milliseconds> timeout,
                                   const std::string& call) {
  const auto start = std::chrono::steady_clock::now();
  Communicator whole(group, timeout);
  const auto store = group->getStore();
  if (!store) return split(whole, "the program's collectives", store);  // which throws
  const auto failed = [&](const std::exception& error, std::chrono::milliseconds waited) {
    return CommunicationError(whole.rank(), call, -1, std::max(waited, elapsed_since(start)),
                              first_line(error) + "; every rank of the group makes this call");
  };
  try {
    ProgramRendezvous ranks(*store, whole.rank(), whole.world_size());
    const std::string attempt = ranks.attempt(start + whole.timeout());
    return split(whole, "the program's collectives " + attempt, store);
  } catch (const Error&) {
    throw;
  } catch (const RanksMissing& missing) {
    throw failed(missing, whole.timeout());  // in a simulated world no time passes on the clock
  } catch (const std::exception& error) {
    throw failed(error, {});
  }
}

}  // namespace

std::shared_ptr<Communicator> program_communicator(
    const c10::intrusive_ptr<c10d::ProcessGroup>& group,
    std::optional<std::chrono::milliseconds> timeout, const std::string& call) {
  // Kept nowhere: one rank needs no group beside this one, which would never end.
  if (group->getSize() == 1) return std::make_shared<Communicator>(group, std::nullopt);
  std::shared_ptr<Communicator> communicator;
  with_record_of(group, [&](GroupRecord& here) { communicator = here.program; });
  if (communicator) return communicator;
  communicator = make(group, timeout, call);
  with_record_of(group, [&](GroupRecord& here) { here.program = communicator; });
  return communicator;
}

void release_program_communicator(const c10::intrusive_ptr<c10d::ProcessGroup>& group) {
  std::shared_ptr<Communicator> released;  // destroyed last: its group may block
  with_record_of(group,
                 [&](GroupRecord& here) { released = std::exchange(here.program, nullptr); });
}

}  // namespace lockstep
