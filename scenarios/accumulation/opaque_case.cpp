#include "scenarios/accumulation/opaque_case.h"

#include <algorithm>
#include <deque>

namespace lockstep::scenarios::accumulation_opaque_outputs {

Acts acts_of(const Opaque& c) {
  auto acts = c.acts.empty() ? Acts{Act::opaque, Act::oldest} : c.acts;
  if (std::ranges::count(acts, Act::bare) == 0) acts.push_back(Act::bare);
  return acts;
}

bool is_seen(Act act) {
  return act == Act::seen || act == Act::seen_local || act == Act::detached;
}

std::vector<Step> steps_of(const Opaque& c) {
  const auto acts = acts_of(c);
  std::vector<Step> steps;
  std::deque<size_t> waiting;  // forwards without a backward
  bool last_one_decides = false;
  const auto backward_of = [&](size_t graph) {
    const auto kind = acts[graph];
    const bool is_reduced = is_seen(kind) ? kind == Act::seen : last_one_decides;
    if (is_reduced) last_one_decides = false;
    steps.push_back({graph, true, kind == Act::bare, is_reduced});
  };
  for (size_t act = 0; act < acts.size(); ++act) {
    const auto kind = acts[act];
    if (kind == Act::bare) {
      backward_of(act);
    } else if (kind == Act::oldest && !waiting.empty()) {
      backward_of(waiting.front());
      waiting.pop_front();
    } else if (kind == Act::newest && !waiting.empty()) {
      backward_of(waiting.back());
      waiting.pop_back();
    } else if (kind != Act::oldest && kind != Act::newest) {
      steps.push_back({act});
      last_one_decides = kind == Act::opaque;
      if (kind != Act::without_gradients && kind != Act::detached) waiting.push_back(act);
    }
  }
  return steps;
}

}  // namespace lockstep::scenarios::accumulation_opaque_outputs
