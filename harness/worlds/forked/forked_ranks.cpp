#include "harness/worlds/forked/forked_ranks.h"

#include "harness/worlds/forked/rank.h"

#include <unistd.h>

namespace lockstep {

CaseReply run_forked(const CaseAssignment& assignment, const RanksHere& here,
                     const ForkedRendezvous& rendezvous, Workplace& workplace, KeptWorlds& kept,
                     int stop_descriptor) {
  const auto& request = assignment.request;
  const auto deadline = std::chrono::steady_clock::now() + request.time_limit;
  const auto& memory = workplace.memory();
  workplace.affinity.unpin();
  kept.end_all();
  memory.clear(here.count);
  workplace.capture->start(here.count);
  ChildGroup group(workplace.alone(), here.count, [&](int index) {
    ::close(stop_descriptor);
    record_crash_in(memory.crashes[static_cast<size_t>(index)]);
    workplace.capture->redirect(index);
    return run_rank(assignment,
                    {.rank = here.first + index,
                     .size = request.size,
                     .journal = memory.journal(index, here.count),
                     .rendezvous = rendezvous,
                     .backend = workplace.device_backend(request.backend),
                     .device = here.device,
                     .scratch = workplace.scratch()},
                    deadline);
  });
  CaseReply reply;
  auto watch = workplace.watch(deadline, stop_descriptor, reply.stacks);
  watch.good_status = kCaseHasRun;
  if (here.when_late)
    watch.on_deadline = [&, take_stacks = watch.on_deadline](const auto& late) {
      take_stacks(late);
      here.when_late(late);
    };
  reply.group = group.wait(watch);
  workplace.add_stacks_of_crashes(reply.group.ends, reply.stacks);
  reply.left_running = end_descendants();
  workplace.remove_scratch();
  return reply;
}

}  // namespace lockstep
