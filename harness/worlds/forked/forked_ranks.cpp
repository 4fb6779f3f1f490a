#include "harness/worlds/forked/forked_ranks.h"

#include "harness/worlds/forked/rank.h"

#include <unistd.h>

namespace lockstep {

CaseReply run_forked(const ForkedRanks& ranks, Workplace& workplace, KeptWorlds& kept,
                     int stop_descriptor) {
  const auto deadline = std::chrono::steady_clock::now() + ranks.limit;
  const auto& memory = workplace.memory();
  workplace.affinity.unpin();
  kept.end_all();
  memory.clear(ranks.count);
  workplace.capture->start(ranks.count);
  ChildGroup group(workplace.alone(), ranks.count, [&](int index) {
    ::close(stop_descriptor);
    record_crash_in(memory.crashes[static_cast<size_t>(index)]);
    workplace.capture->redirect(index);
    return run_rank({.scenario = ranks.scenario,
                     .c = ranks.c,
                     .subject = ranks.subject,
                     .rank = ranks.first + index,
                     .size = ranks.size,
                     .journal = memory.journal(index, ranks.count),
                     .rendezvous = ranks.rendezvous,
                     .backend = ranks.backend,
                     .device = ranks.device,
                     .scratch = workplace.scratch(),
                     .deadline = deadline});
  });
  CaseReply reply;
  auto watch = workplace.watch(deadline, stop_descriptor, reply.stacks);
  watch.good_status = kCaseHasRun;
  if (ranks.when_late)
    watch.on_deadline = [&, take_stacks = watch.on_deadline](const auto& late) {
      take_stacks(late);
      ranks.when_late(late);
    };
  reply.group = group.wait(watch);
  workplace.add_stacks_of_crashes(reply.group.ends, reply.stacks);
  reply.left_running = end_descendants();
  workplace.remove_scratch();
  return reply;
}

}  // namespace lockstep
