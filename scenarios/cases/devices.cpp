#include "scenarios/cases/devices.h"

#include "harness/worlds/subject.h"

namespace lockstep::scenarios {

std::string backend_name(RankContext& here) {
  return here.group()->getBackend(here.device().type())->getBackendName();
}

bool host_waits(RankContext& here) {
  return here.device().is_cpu() || backend_name(here) == "gloo";
}

void refuse_where_the_host_does_not_wait(RankContext& here, const std::string& what) {
  if (host_waits(here)) return;
  throw Unsupported("on a device over " + backend_name(here) + " " + what +
                    " ends the instance (docs/semantics.md 2.8)");
}

void refuse_where_the_simulation_waits(RankContext& here, const std::string& what) {
  if (here.device().is_cpu() || backend_name(here) != "accelerator") return;
  throw Unsupported("the simulated accelerator holds up hosts that would otherwise receive " +
                    what + " (docs/accelerator.md)");
}

}  // namespace lockstep::scenarios
