#pragma once

#include "ddp/reducer/gradient_hooks.h"

#include <ATen/core/Tensor.h>

#include <deque>
#include <functional>
#include <optional>
#include <vector>

namespace lockstep {

// Note [Which backward passes are reduced]
// A pass through an output of a synchronised forward is reduced: the graph decides, however often
// and in whatever order graphs are used. Any other pass is reduced if its graph has a function that
// a synchronised forward recorded (a loss made of what the module kept for itself). Otherwise it is
// local: a pass through outputs of local forwards, of the bare module, or of parameters alone,
// which no peer may run. Where the output of the last forward cannot be seen, that forward decides
// as well, once: a pass that goes through no output and runs no known function may recompute a
// segment inside that forward's pass.
//
// Note [Functions of gradients]
// With create_graph a pass records functions too, such as those of a gradient penalty. Where the
// module multiplies its parameters and its input alone, they hold nothing that forward recorded. So
// what a pass records after it has come through an output of a synchronised forward counts as
// recorded by that forward.
//
// Source: docs/semantics.md 1.4 and 0.12, docs/decisions/0007-the-graph-decides.md.

// Remembers the forwards of one instance and decides which backward passes are reduced. Everything
// is Local and does not block.
class SynchronisedForwards {
 public:
  // Called before every forward.
  void forward_begins();

  // Called on the same thread after a forward with gradients; `synchronised` is false inside
  // no_sync. `outputs` is empty if they cannot be seen. `on_output_gradient` is called whenever a
  // pass goes through one of them: before the functions behind it, on the thread of the pass.
  using Listener = std::function<void(bool synchronised)>;
  void forward_ends(const std::optional<std::vector<at::Tensor>>& outputs, bool synchronised,
                    const Listener& on_output_gradient);

  // From now on a pass that runs a function of this recording is reduced, as if a synchronised
  // forward had recorded it. The last 1,024 such recordings and forwards are remembered.
  void remember(const Recording& recording);

  // Called on a thread of a pass: whether it runs a function that one of the synchronised forwards
  // recorded. Walks all functions of the pass.
  bool are_run_by_this_pass() const;

  // Called on a thread of a pass at its first gradient: whether this pass, which has come through
  // no output, is reduced.
  bool reduce_this_pass() const;

  // True if a synchronised forward waits for its backward.
  bool are_outstanding() const { return are_outstanding_; }

  // True if the outputs of every forward so far, synchronised or not, could be seen.
  bool sees_all_outputs() const { return sees_all_outputs_; }

  // No forward so far waits for its backward, and the last one decides no more: a reduced pass
  // begins, or the parameters have changed.
  void clear_outstanding() { are_outstanding_ = last_one_decides_ = false; }

 private:
  Recording current_;                 // the current or last forward's
  std::deque<Recording> remembered_;  // of synchronised ones, and of gradients
  bool last_one_decides_ = false;
  bool are_outstanding_ = false;
  bool sees_all_outputs_ = true;
};

}  // namespace lockstep
