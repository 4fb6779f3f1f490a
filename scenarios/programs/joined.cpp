#include "scenarios/programs/joined.h"

#include <algorithm>
#include <functional>

namespace lockstep::scenarios::programs {

Joined::Joined(const Action& join)
    : join_(join), is_out_(join.acts.size(), false), is_ended_(is_out_), is_stopped_(is_out_) {}

bool Joined::admits(const Step& step, int model) const {
  if (step.op == Op::hold || step.op == Op::release) return false;
  if (model != join_.model) return !is_shadowed(join_.step) && join_.parts.size() == 1;
  const auto op = step.op;
  if (op == Op::regroup) return std::none_of(is_out_.begin(), is_out_.end(), std::identity());
  return op != Op::wrap && op != Op::unwrap && !is_freeze(op) && op != Op::tell;
}

// Where uneven inputs throw, no rank makes more forwards than those with which it trains.
int Joined::forwards_of(int rank) const {
  int forwards = forwards_in_join(join_.step, rank);
  if (!throws()) return forwards;
  for (const auto& part : join_.parts) {
    if (std::find(part.begin(), part.end(), rank) == part.end()) continue;
    for (const int other : part) forwards = std::min(forwards, forwards_in_join(join_.step, other));
  }
  return forwards;
}

void Joined::enter(Action& action) {
  const bool needs_input = action.model == join_.model &&
                           (action.step.op == Op::forward || action.step.op == Op::throw_);
  for (int rank = 0; rank < static_cast<int>(is_out_.size()); ++rank) {
    const auto at = static_cast<size_t>(rank);
    if (needs_input && !is_out_[at] && forwards_made_ >= forwards_of(rank)) {
      is_out_[at] = true;
      action.is_stopped[at] = forwards_in_join(join_.step, rank) > forwards_made_;
      is_stopped_[at] = action.is_stopped[at];
    }
    action.acts[at] = !is_out_[at];
  }
  if (needs_input) ++forwards_made_;
  for (const auto& part : join_.parts) {
    const bool is_uneven = std::any_of(part.begin(), part.end(), [&](int rank) {
      return action.is_stopped[static_cast<size_t>(rank)];
    });
    for (const int rank : part)
      if (is_uneven) is_ended_[static_cast<size_t>(rank)] = true;
  }
}

Action Joined::finish(int number) const {
  Action action = join_;
  action.number = number;
  action.join = join_.step;
  action.step = {.op = Op::finish, .model = join_.step.model};
  action.is_out = is_out_;
  action.is_stopped = is_stopped_;
  action.is_ended = is_ended_;
  return action;
}

}  // namespace lockstep::scenarios::programs
