#include "scenarios/cases/devices.h"

#include "harness/worlds/subject.h"

namespace lockstep::scenarios {

std::string backend_name(RankContext& here) {
  return here.group()->getBackend(here.device().type())->getBackendName();
}

void refuse_where_the_host_does_not_wait(RankContext& here, const std::string& what) {
  if (here.device().is_cpu() || backend_name(here) == "gloo") return;
  throw Unsupported("on a device over " + backend_name(here) + " " + what +
                    " ends the instance (docs/semantics.md 2.8)");
}

}  // namespace lockstep::scenarios
