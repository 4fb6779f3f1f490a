#include "scenarios/cases/stateful.h"

#include "scenarios/cases/options.h"

#include <algorithm>

namespace lockstep::scenarios {

namespace {

bool is_local(ForwardKind forward) {
  return forward == ForwardKind::no_sync || forward == ForwardKind::no_grad;
}

}  // namespace

std::string Stateful::unmet_precondition() const {
  if (const auto why = why_ranks_begin_apart(options); !why.empty()) return why;
  return !options.buffer_sync_lag && std::any_of(forwards.begin(), forwards.end(), is_local)
             ? "a forward after a local one leaves buffers alone only with buffer_sync_lag"
             : "";
}

std::vector<ForwardKind> forwards_of(const Stateful& c) {
  return c.forwards.empty() ? std::vector{ForwardKind::synced} : c.forwards;
}

int64_t samples_of(const Stateful& c, int rank) {
  return c.samples.empty() ? 2 : c.samples[static_cast<size_t>(rank) % c.samples.size()];
}

std::vector<bool> synchronised(const Stateful& c) {
  std::vector<bool> out;
  bool next = true;
  for (const auto kind : forwards_of(c)) {
    out.push_back(next && c.options.broadcast_buffers);
    next = !is_local(kind);
  }
  return out;
}

}  // namespace lockstep::scenarios

namespace lockstep {

template Scenario scenario<scenarios::Stateful>(Spec<scenarios::Stateful> spec);

}  // namespace lockstep
