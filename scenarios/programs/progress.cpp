#include "scenarios/programs/progress.h"

#include <algorithm>
#include <utility>

namespace lockstep::scenarios::programs {

Progress::Progress(const ProgramSpec& c, int model)
    : c_(c), parts_(parts_of_world(c, 0)), frozen_(c, model) {
  for (const auto& layer : layers_of(c, model)) {
    saves_parameters_ = saves_parameters_ || layer.use == Use::squared;
    recomputes_ = recomputes_ || layer.use == Use::recomputed;
    is_sparse_ = is_sparse_ || layer.kind == LayerKind::sparse;
  }
  for (const auto& step : c.steps) saves_parameters_ = saves_parameters_ || step.penalty_alone;
}

bool Progress::runs(Action& action) {
  const auto op = action.step.op;
  action.is_local = is_wrapped_ && (action.step.no_sync > 0 || held_ > 0);
  if (!frozen_.is_noted() && !means_something_unnoted(op)) return false;
  if (is_broken_ && !means_something_broken(op)) return false;
  if (op == Op::tell) return is_wrapped_ && notes();
  if (op == Op::hold) return is_wrapped_ && ++held_ > 0;
  if (op == Op::release) return held_ > 0 && held_-- > 0;
  if (op == Op::forward) return is_wrapped_ && opens(action);
  if (is_backward(op) || op == Op::grad) return closes(action);
  if (op == Op::bare) return runs_bare(action);
  if (op == Op::throw_) return is_wrapped_ && throws(action);
  if (op == Op::evaluate || op == Op::infer) return is_wrapped_;
  if (is_update(op) || op == Op::load) return may_write_parameters();
  if (op == Op::freeze || op == Op::unfreeze) return freezes(action.step);
  // Autograd's knowledge of a parameter goes with its dtype, and an open graph keeps the old dtype.
  if (op == Op::convert) return converts();
  if (op == Op::unwrap) return unwraps();
  if (op == Op::wrap) return wraps(action.step);
  if (op == Op::regroup) return regroups(action.step);
  return true;
}

bool Progress::joins(Action& action) const {
  action.parts = parts_;
  if (is_broken_ || !frozen_.is_noted()) return false;
  return is_wrapped_ && (!is_shadowed(action.step) || !c_.options.static_graph);
}

// Ranks that were out of inputs have other graphs, and have not hooked what was converted before.
void Progress::finishes(Action& action) {
  for (const auto& graph : open_) action.closed.push_back(graph.step);
  open_.clear();
  has_lost_hooks_ = true;
  begins_anew();
}

// The first pass of a static graph, the comparison before buckets are skipped, and sparse entries
// are exchanged one instance after another.
bool Progress::goes_in_any_order(const Step& forward) const {
  const bool is_local = forward.no_sync > 0 || held_ > 0;
  const bool rebuilds = has_reduced_ && !is_rebuilt_ && !finds_unused(c_) && !is_local;
  const bool compares = c_.options.static_graph || c_.options.skip_all_reduce_unused_params;
  return !rebuilds && !compares && !is_sparse_ && !sends_buffers(c_);
}

bool Progress::notes() {
  frozen_.note();
  is_broken_ = false;
  has_reduced_ = is_rebuilt_ = false;
  return begins_anew();
}

bool Progress::opens(Action& action) {
  if (!frozen_.is_noted()) return action.is_refused = is_broken_ = !action.is_local;
  action.is_synchronised = !action.is_local;
  has_lost_hooks_ = false;
  if (!may_leave_out(action.step, action.is_synchronised)) return false;
  action.uses_first = !is_alone(action.step);
  const bool uses_all = uses_all_layers(c_, action.step);
  const bool finds_anew = action.is_synchronised && !is_outstanding_;
  for (auto& graph : open_)
    if (uses_all || (finds_anew && graph.reductions_before < reduction_count_))
      graph.is_superseded = !uses_all;
  open_.push_back(
      {action.number, action.is_synchronised, reduction_count_, !action.step.penalty_alone});
  is_outstanding_ = is_outstanding_ || action.is_synchronised;
  is_rebuilt_ = is_rebuilt_ || (has_reduced_ && action.is_synchronised);
  return true;
}

bool Progress::throws(const Action& action) {
  is_rebuilt_ = is_rebuilt_ || (has_reduced_ && !action.is_local);
  return true;
}

bool Progress::converts() {
  has_lost_hooks_ = has_lost_hooks_ || open_.empty();
  return open_.empty();
}

// After a conversion the replica observes no pass before its next forward, which matters where
// unused parameters are found.
bool Progress::runs_bare(Action& action) {
  if (has_lost_hooks_ && is_wrapped_ && finds_unused(c_)) return false;
  action.uses_first = !is_alone(action.step);
  return may_leave_out(action.step, false);
}

bool Progress::closes(Action& action) {
  if (open_.empty()) return false;
  const bool together = action.step.op == Op::backward_together;
  const auto chosen = static_cast<size_t>(action.step.of) % open_.size();
  const auto graphs = together ? open_ : std::vector<Graph>{open_[chosen]};
  for (const auto& graph : graphs) {
    action.graphs.push_back(graph.step);
    action.is_synchronised = action.is_synchronised || graph.is_synchronised;
  }
  if (recomputes_ && !may_recompute(action, graphs)) return false;
  if (action.step.op == Op::grad) {
    action.is_synchronised = false;
    return true;
  }
  if (action.step.inputs == Inputs::first && action.is_synchronised && !finds_unused(c_))
    return false;
  if (action.is_synchronised && !may_be_reduced(graphs)) return false;
  if (action.is_synchronised) {
    begins_anew();
    has_reduced_ = true;
  }
  if (action.step.op == Op::backward_retained) return true;
  action.closed = action.graphs;
  if (together) {
    open_.clear();
  } else {
    open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(chosen));
  }
  return true;
}

bool Progress::may_be_reduced(const std::vector<Graph>& graphs) const {
  return std::none_of(graphs.begin(), graphs.end(), [&](const Graph& each) {
    return finds_unused(c_) ? each.is_superseded : each.is_stale;
  });
}

// Autograd runs what is on the way to the inputs of a pass, which recomputation is not; what is
// recomputed finds the parameters that are trainable now; and of two graphs it brings each
// gradient twice.
bool Progress::may_recompute(const Action& action, const std::vector<Graph>& graphs) {
  return action.step.inputs == Inputs::no && graphs.size() == 1 && !graphs.front().is_stale;
}

// The forwards so far decide no more which parameters are unused.
bool Progress::begins_anew() {
  ++reduction_count_;
  is_outstanding_ = false;
  return true;
}

bool Progress::freezes(const Step& step) {
  if (frozen_.count() == 0) return false;
  const auto layer = static_cast<size_t>(step.layer) % frozen_.count();
  if (step.op == Op::freeze && frozen_.is_delayed(layer)) return false;
  frozen_.freeze(layer, step.op == Op::freeze);
  if (step.op == Op::unfreeze)
    for (auto& graph : open_) graph.is_stale = true;
  return (step.forgotten && is_wrapped_) || notes();
}

// Graphs of the replica stay, as local ones.
bool Progress::unwraps() {
  if (!std::exchange(is_wrapped_, false)) return false;
  for (auto& graph : open_) graph.is_synchronised = false;
  held_ = 0;
  return notes();
}

// A new replica writes parameters, as an update does.
bool Progress::wraps(const Step& step) {
  if (!may_write_parameters()) return false;
  unwraps();
  is_wrapped_ = true;
  return regroups(step);
}

bool Progress::regroups(const Step& step) {
  if (!is_wrapped_) return false;
  parts_ = parts_of_world(c_, step.cut);
  for (auto& graph : open_) graph.is_synchronised = graph.is_synchronised && graph.has_output;
  return notes();
}

// Where unused parameters are found this is misuse; and an output needs a graph.
bool Progress::is_alone(const Step& step) const {
  if (step.direct != Direct::alone || finds_unused(c_)) return false;
  if (!step.left_out_of_loss.empty()) return false;
  const auto bits = left_out_by_rank(c_, step);
  return std::all_of(bits.begin(), bits.end(),
                     [&](uint32_t left_out) { return frozen_.train_without(left_out); });
}

// A static graph is one graph, on each rank. Where unused parameters are not found, every
// synchronised pass brings all gradients.
bool Progress::may_leave_out(const Step& step, bool is_synchronised) {
  // A recomputed segment has no second derivatives.
  if (step.penalty_alone && recomputes_) return false;
  auto bits = left_out_by_rank(c_, step);
  for (int rank = 0; rank < c_.world.size; ++rank) bits.push_back(left_out_of_loss(c_, step, rank));
  if (c_.options.static_graph) {
    if (!static_bits_) static_bits_ = bits;
    return bits == *static_bits_;
  }
  return finds_unused(c_) || !is_synchronised ||
         std::all_of(bits.begin(), bits.end(), [](uint32_t each) { return each == 0; });
}

}  // namespace lockstep::scenarios::programs
