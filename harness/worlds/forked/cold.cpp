#include "harness/worlds/forked/cold.h"

#include "harness/worlds/forked/forked_ranks.h"

namespace lockstep {

CaseReply ColdServer::run(const CaseRequest& request, const std::string&, int stop_descriptor) {
  const auto& memory = workplace_.memory();
  const RendezvousInMemory rendezvous(memory.store, memory.exit_barrier);
  return run_forked(workplace_.assignment_of(request), {.count = request.size}, rendezvous,
                    workplace_, kept_, stop_descriptor);
}

}  // namespace lockstep
