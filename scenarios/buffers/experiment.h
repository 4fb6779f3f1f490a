// The program that all scenarios of buffers share: every forward changes the module's buffers by
// values that only its own rank has; they are recorded before, inside and after each forward and
// backward.
#pragma once

#include "harness/rank/rank_context.h"
#include "harness/verdict/compare.h"
#include "harness/worlds/subject.h"
#include "scenarios/cases/stateful.h"

#include <rapidcheck.h>

#include <functional>

namespace lockstep::scenarios::buffers {

// A model that calls `on_entry` when a forward begins, after everything that precedes it.
class Watched : public Model {
 public:
  std::function<void()> on_entry;
};

// Wraps `model` and runs the case: buffers are recorded "before forward", "in forward", "after
// forward" and "after backward"; each forward is a separate step.
void train(const Stateful& c, RankContext& here, const std::shared_ptr<Watched>& model,
           const std::function<at::Tensor(int forward)>& input);

// One buffer's expected value, and the bound on its error; no bound: equal bits.
struct Value {
  TensorValue value;
  std::optional<TensorValue> bound;
};
using State = std::vector<Value>;  // by buffer

// The states of every rank, forward by forward: [forward][rank].
struct Trajectory {
  std::vector<std::vector<State>> begins;  // as the module's forward begins
  std::vector<std::vector<State>> kept;    // the same without a broadcast
  std::vector<std::vector<State>> after;
};

// Follows `c` from rank 0's state at the start. T is whatever `update(state, forward, rank)`
// computes with; `shown` makes it a State.
template <class T, class Update, class Shown>
Trajectory trajectory(const Stateful& c, const T& start, const Update& update, const Shown& shown) {
  Trajectory out;
  const auto kinds = forwards_of(c);
  const auto gates = synchronised(c);
  std::vector<T> now(static_cast<size_t>(c.world.size), start);
  const auto show = [&](std::vector<std::vector<State>>& where) {
    where.emplace_back();
    for (const auto& state : now) where.back().push_back(shown(state));
  };
  for (size_t f = 0; f < kinds.size(); ++f) {
    show(out.kept);
    if (gates[f]) now.assign(now.size(), T(now.front()));
    show(out.begins);
    if (kinds[f] != ForwardKind::eval)
      for (size_t rank = 0; rank < now.size(); ++rank)
        now[rank] = update(now[rank], static_cast<int>(f), static_cast<int>(rank));
    show(out.after);
  }
  return out;
}

// Checks that forwards begin and end as in the trajectory, for buffers of these names.
Findings forwards_are_as_expected(const History& h, const std::vector<std::string>& names,
                                  const Trajectory& expected);

// Checks that a backward changes no buffer.
Findings backward_changes_no_buffer(const Stateful& c, const History& h);

// Worlds of 2 to 4 and up to four forwards of these kinds.
rc::Gen<Stateful> cases(const std::vector<ForwardKind>& kinds);

}  // namespace lockstep::scenarios::buffers
