#include "harness/worlds/forked/cold.h"

#include "harness/worlds/forked/forked_ranks.h"

namespace lockstep {

CaseReply ColdServer::run(const CaseRequest& request, const std::string&, int stop_descriptor) {
  const Case c{request.scenario, Json::parse(request.case_value)};
  const auto& memory = workplace_.memory();
  const RendezvousInMemory rendezvous(memory.store, memory.exit_barrier);
  return run_forked({.scenario = workplace_.scenario(request.scenario),
                     .c = c,
                     .subject = workplace_.subject(request.subject),
                     .backend = workplace_.device_backend(request.backend),
                     .size = request.size,
                     .count = request.size,
                     .device = {},
                     .rendezvous = rendezvous,
                     .limit = request.limit},
                    workplace_, kept_, stop_descriptor);
}

}  // namespace lockstep
