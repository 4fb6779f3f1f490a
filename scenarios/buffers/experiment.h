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

// The bytes of a message in which state travels; 0: the subject's own number.
int64_t message_bytes_of(const Stateful& c);

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

// Each forward of `c` from what the ranks held before it, and as its module's forward began, right
// or wrong: `held(moment, rank)`. T is whatever `held` returns and `update(state, forward, rank)`
// computes with; `shown` makes it a State.
template <class Held, class Update, class Shown>
Trajectory trajectory(const Stateful& c, const Held& held, const Update& update,
                      const Shown& shown) {
  Trajectory out;
  const auto kinds = forwards_of(c);
  const auto gates = synchronised(c);
  for (int f = 0; f < static_cast<int>(kinds.size()); ++f) {
    const auto at = static_cast<size_t>(f);
    std::vector<State> kept, after;
    for (int rank = 0; rank < c.world.size; ++rank) {
      kept.push_back(shown(held({f, "before forward"}, rank)));
      const auto began = held({f, "in forward"}, rank);
      after.push_back(shown(kinds[at] == ForwardKind::eval ? began : update(began, f, rank)));
    }
    out.begins.push_back(gates[at] ? std::vector(kept.size(), kept.front()) : kept);
    out.kept.push_back(std::move(kept));
    out.after.push_back(std::move(after));
  }
  return out;
}

// Checks that all ranks begin with rank 0's buffers, whatever each was built with.
Findings start_is_rank_zeros(const Stateful& c, const History& h,
                             const std::vector<std::string>& names,
                             const std::vector<State>& built);

// Checks that forwards begin and end as in the trajectory, for buffers of these names.
Findings forwards_are_as_expected(const History& h, const std::vector<std::string>& names,
                                  const Trajectory& expected);

// Checks that a backward changes no buffer.
Findings backward_changes_no_buffer(const Stateful& c, const History& h);

// Worlds of 2 to 4 and up to four forwards of these kinds.
rc::Gen<Stateful> cases(const std::vector<ForwardKind>& kinds);

}  // namespace lockstep::scenarios::buffers
