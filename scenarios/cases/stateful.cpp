#include "scenarios/cases/stateful.h"

namespace lockstep::scenarios {

std::vector<std::string> forwards_of(const Stateful& c) {
  return c.forwards.empty() ? std::vector<std::string>{"synced"} : c.forwards;
}

int64_t samples_of(const Stateful& c, int rank) {
  return c.samples.empty() ? 2 : c.samples[static_cast<size_t>(rank) % c.samples.size()];
}

std::vector<bool> synchronised(const Stateful& c) {
  std::vector<bool> out;
  bool next = true;
  for (const auto& kind : forwards_of(c)) {
    out.push_back(next && c.options.broadcast_buffers);
    next = kind != "no_sync" && kind != "no_grad";
  }
  return out;
}

}  // namespace lockstep::scenarios

namespace lockstep {

template Scenario scenario<scenarios::Stateful>(Spec<scenarios::Stateful> spec);

}  // namespace lockstep
